"""The attempts of a locked operation: what each is known to have done, and who is still in doubt.

Doubt belongs to an attempt. Whatever decides about the operation reads all of them first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from operations.catalogue import ToolFacts
from operations.claims import OutcomeReport
from operations.rows import LockedOperation

#: How far a sender's clock may be behind ours; only unfenced attempts are judged by it.
CLOCK_SKEW_SECONDS: Final = 5
#: A permit lasts this long, or to the end of its lease.
SEND_WITHIN_SECONDS: Final = 10
#: However often it is prolonged, one lease ends this long after it was granted.
LONGEST_LEASE_SECONDS: Final = 3600


@dataclass(slots=True)
class AttemptRow:
    """One try, as its row stands."""

    id: int
    number: int
    attempt_id: str
    origin: str
    runtime: UUID | None
    grant: str | None
    standing: str
    permanent: bool | None
    fenced: bool
    granted_at: datetime
    lease_expires_at: datetime
    send_token_digest: bytes | None
    permit_at: datetime | None
    permit_until: datetime | None
    emits_until: datetime | None
    provider_ref: str | None
    result_sha256: bytes | None

    @property
    def may_have_sent(self) -> bool:
        """A fenced attempt without a permit has sent nothing."""
        return not self.fenced or self.permit_at is not None

    def holds(self, token: str | None) -> bool:
        """Whether this is the token that its permit was given to."""
        return token is not None and digest_of(token) == self.send_token_digest

    def is_vouched_by(self, report: OutcomeReport, runtime: UUID) -> bool:
        """Whether a negative comes from the very sender: id, runtime and, if given, its token."""
        return (
            report.attempt_id == self.attempt_id
            and runtime == self.runtime
            and (self.send_token_digest is None or self.holds(report.send_token))
        )


@dataclass(slots=True)
class Tries:
    """Every attempt of one operation, oldest first, and the clock when they were read."""

    now: datetime
    rows: list[AttemptRow]

    def __iter__(self) -> Iterator[AttemptRow]:
        return iter(self.rows)

    def number(self, number: int) -> AttemptRow | None:
        return next((row for row in self.rows if row.number == number), None)

    @property
    def live(self) -> AttemptRow | None:
        return next((row for row in self.rows if row.standing == "live"), None)

    def in_doubt(self, *, but: AttemptRow | None = None) -> list[AttemptRow]:
        """Attempts that may have had their effect unseen."""
        return [row for row in self.rows if row.standing == "in_doubt" and row is not but]

    @property
    def permanent(self) -> int:
        """How many have failed for good."""
        return sum(1 for row in self.rows if row.permanent)


# Quoted, because "grant" is a word of SQL's own.
_COLUMNS: Final = ", ".join(f'a."{field.name}"' for field in fields(AttemptRow))
_LOAD: Final = f"""
SELECT clock_timestamp(), {_COLUMNS}
  FROM (SELECT) AS one LEFT JOIN operations_attempt a ON a.operation_id = %s
 ORDER BY a.number
"""  # noqa: S608


def load(cur: Any, op: LockedOperation) -> Tries:
    """Read them in a statement that begins after the lock, so that it sees what the lock saw."""
    cur.execute(_LOAD, (op.id,))
    rows = cur.fetchall()
    return Tries(rows[0][0], [AttemptRow(*row[1:]) for row in rows if row[1] is not None])


def update(cur: Any, attempt: AttemptRow, **columns: Any) -> None:
    """Write columns of one attempt's row; only under its operation's lock."""
    written = ", ".join(f"{name} = %s" for name in columns)
    cur.execute(
        f"UPDATE operations_attempt SET {written} WHERE id = %s",  # noqa: S608 -- our own names
        (*columns.values(), attempt.id),
    )
    for name, value in columns.items():
        if hasattr(attempt, name):
            setattr(attempt, name, value)


def end(
    cur: Any, attempt: AttemptRow, standing: str, outcome: str | None, at: datetime, **columns: Any
) -> None:
    """The attempt is over, or is known better than before."""
    columns = {"standing": standing, "ended_at": at, **columns}
    if outcome is not None:
        columns["outcome"] = outcome
    update(cur, attempt, **columns)


def doubt(
    cur: Any, attempt: AttemptRow, outcome: str, facts: ToolFacts, at: datetime, **columns: Any
) -> None:
    """The attempt may have had its effect. One that broke its fence counts as unfenced."""
    if attempt.emits_until is None:
        columns["fenced"] = False
        columns["emits_until"] = emits_until_of_lease(attempt.lease_expires_at, facts)
    end(cur, attempt, "in_doubt", outcome, at, **columns)


def unfence(cur: Any, attempt: AttemptRow, facts: ToolFacts) -> None:
    """Somebody holds this attempt who has not promised to ask before sending."""
    until = emits_until_of_lease(attempt.lease_expires_at, facts)
    update(cur, attempt, fenced=False, emits_until=max(until, attempt.emits_until or until))


def emits_until_of_lease(lease_expires_at: datetime, facts: ToolFacts) -> datetime:
    """t_emit of an unfenced attempt: end of its last lease, its client's patience, clock skew."""
    return lease_expires_at + timedelta(seconds=facts.emission_seconds + CLOCK_SKEW_SECONDS)


def t_emit(tries: Tries) -> datetime | None:
    """The latest instant at which an attempt not proved harmless could still send; None: none."""
    times = [row.emits_until for row in tries if row.standing in ("live", "in_doubt")]
    return max((time for time in times if time is not None), default=None)


def digest_of(token: str) -> bytes:
    """How a send token is kept: it lives in its sender's memory only."""
    return sha256(token.encode()).digest()
