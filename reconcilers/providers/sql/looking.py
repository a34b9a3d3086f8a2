"""The looks of one question, on connections that are known to be the right database's primary."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from psycopg import sql

from reconcilers.evidence import Look, Outcome, Stage
from reconcilers.providers.base import (
    AccountAccess,
    Gate,
    Identity,
    KnownObject,
    ProviderError,
    Question,
)
from reconcilers.providers.sql import rows
from reconcilers.providers.sql.connecting import Line, Lines
from reconcilers.providers.sql.rows import Reading, Shape

_WHO: Final = """
SELECT (SELECT system_identifier FROM pg_control_system())::text, current_database()
"""
_ROLE: Final = "SELECT pg_is_in_recovery()"
_FATES: Final = "SELECT pg_xact_status(recorded.txid::text::xid8) FROM (\n{}\n) AS recorded (txid)"
#: Attempts that recorded a transaction of theirs.
_MOST_TXIDS: Final = 20


@dataclass(frozen=True)
class Placed:
    """What holds for every question of one `ask`."""

    identity: Identity
    shape: Shape
    control_passed: bool = False


class Looker:
    """Makes looks for one account. Raises ProviderError for whatever is not an answer."""

    def __init__(self, access: AccountAccess, gate: Gate, lines: Lines) -> None:
        self._config = access.config
        self._expected = access.external_id
        self._environment = access.environment
        self._query = str(access.config["query"])
        self._gate = gate
        self._lines = lines
        where = f"{self._config['host']}:{self._config.get('port') or 5432}"
        self._where = f"{where}/{self._config['dbname']}"

    async def identify(self, line: Line) -> Identity:
        """Which database this is; raises where it is a standby, or another than the account's."""
        ((recovering,),), ((system, name),) = await line.read((_ROLE, {}), (_WHO, {}))
        if recovering:
            raise ProviderError("this server is a standby: only the primary can be asked")
        found = f"{system}/{name}"
        if self._expected and found != self._expected:
            raise ProviderError(
                f"this is database {found}, and the account is {self._expected}", permanent=True
            )
        return Identity(account_id=found, mode=self._environment)

    async def place(self, line: Line, question: Question, known: KnownObject | None) -> Placed:
        """Check everything that has to hold before an answer counts; `question` is any of them."""
        identity = await self.identify(line)
        columns = await line.columns(rows.described(self._query), rows.parameters(question))
        placed = Placed(identity, rows.shape_of(self._query, self._config, columns))
        if known is not None:
            key = {"key": known.marker, "since": question.window_from}
            seen = (await self._read(line, placed, key)).sightings
            if known.id not in {each.id for each in seen}:
                raise ProviderError(
                    f"an earlier row of ours, {known.id}, is not visible, so an empty answer"
                    " would mean nothing"
                )
        return Placed(identity, placed.shape, control_passed=True)

    async def by_row(self, line: Line, placed: Placed, question: Question) -> tuple[Look, bool]:
        """Class A: the row with our key; and whether our own tombstone lies there."""
        started_at = self._gate.now()
        reading = await self._read(line, placed, rows.parameters(question))
        return self._look("row", "A", reading, started_at, placed), reading.buried

    async def by_tombstone(self, line: Line, placed: Placed, question: Question) -> Look:
        """Class T: take the key, or learn that it is taken. The row is read again either way."""
        started_at = self._gate.now()
        parameters = {"key": question.marker, "since": question.window_from}
        statement = sql.SQL(self._config["tombstone"])
        async with self._lines.writer() as writer:
            await self.identify(writer)
            accepted = await writer.write_one(statement, parameters)
        reading = await self._read(line, placed, parameters)
        if reading.sightings or reading.buried:
            return self._look("tombstone", "T", reading, started_at, placed)
        if accepted:
            raise ProviderError(
                "the tombstone was written and the query does not find it under our key, so it"
                " proves nothing",
                permanent=True,
            )
        raise ProviderError("the key is taken and the row that has it is not visible")

    def by_lying_tombstone(self, row: Look) -> Look:
        """Class T without a write: the row that was read is our own tombstone."""
        return replace(row, lookup="tombstone", lookup_class="T")

    async def _read(self, line: Line, placed: Placed, parameters: Mapping[str, Any]) -> Reading:
        """The rows on a primary; what a transaction may still write is not missing yet."""
        asked: list[tuple[Any, Mapping[str, Any]]] = [(_ROLE, {})]
        txids = self._config.get("txid_query")
        if txids:
            # Before the rows: a transaction that has ended by then has its row in them.
            fates = sql.SQL(_FATES + f" LIMIT {_MOST_TXIDS}").format(sql.SQL(txids))
            asked.append((fates, parameters))
        *before, found = await line.read(*asked, (placed.shape.statement, parameters))
        if before[0][0][0]:
            raise ProviderError("this server is a standby: only the primary can be asked")
        reading = rows.read(placed.shape, found, self._config, str(parameters["key"]))
        for seen in reading.sightings:
            if seen.mode not in {"", self._environment}:
                raise ProviderError(f"row {seen.id} is of the other mode", permanent=True)
        if txids and not reading.sightings and not reading.buried:
            _check_fates([fate for (fate,) in before[1]])
        return reading

    def _look(
        self, lookup: str, lookup_class: str, reading: Reading, started_at: Any, placed: Placed
    ) -> Look:
        seen = reading.sightings
        if seen:
            pending = any(each.stage is Stage.IN_FLIGHT for each in seen)
            outcome = Outcome.PENDING if pending else Outcome.HIT
        else:
            outcome = Outcome.EMPTY
        verb = "INSERT" if lookup_class == "T" else "SELECT"
        return Look(
            lookup=lookup,
            lookup_class=lookup_class,
            outcome=outcome,
            started_at=started_at,
            ended_at=self._gate.now(),
            endpoint=f"{verb} on {self._where}",
            account_seen=placed.identity.account_id,
            mode=self._environment,
            pages=1,
            rows=len(seen),
            complete=True,
            exhaustive=True,
            control_passed=placed.control_passed,
            sightings=seen,
            answer=reading.raw,
        )

    def could_not(self, question: Question, problem: ProviderError, *, lookup: str = "row") -> Look:
        """A look that could not look."""
        now = self._gate.now()
        return Look(
            lookup=lookup,
            lookup_class="T" if lookup == "tombstone" else "A",
            outcome=Outcome.CANNOT_LOOK,
            started_at=now,
            ended_at=now,
            endpoint=self._where,
            reason=str(problem),
            retry_after_seconds=problem.retry_after_seconds,
            permanent=problem.permanent,
        )


def _check_fates(fates: list[str | None]) -> None:
    """No row yet, and what became of the transactions that were to write it."""
    if "in progress" in fates:
        raise ProviderError("the transaction that writes the row has not ended yet")
    if "committed" in fates:
        raise ProviderError(
            "the transaction that was to write the row is committed and there is no such row:"
            " the query does not look where the call writes",
            permanent=True,
        )
