"""Batches of records: "this already happened". Stored first, judged second, set-based.

Whatever order records come in, and however they are cut into batches, the same states and the same
incidents are left (`operations.fold`). A record that is wrong in itself never harms its batch.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import OperationalError, connection, transaction

from operations import (
    arrays,
    attempts,
    catalogue,
    closing,
    documents,
    early_evidence,
    endings,
    rows,
    states,
    transitions,
)
from operations.actors import Runtime, Scope
from operations.attempts import AttemptRow, Tries
from operations.catalogue import Catalogue, ToolFacts
from operations.fold import Fact
from operations.reports import births, broken_promises, deciding, hearsay, keeping, writing
from operations.reports.births import Call
from operations.reports.broken_promises import Opening
from operations.reports.calls import calls_of
from operations.reports.deciding import Before, Decision
from operations.reports.reported import ACCEPTED, DUPLICATE, INCIDENT, MALFORMED, Reported
from operations.reports.runs import runs_of
from operations.reports.shapes import read_record as read_one
from operations.reports.splitting import Parsed, split_array, split_lines
from operations.rows import LockedOperation

__all__ = ["ingest_records", "read_record", "split_array", "split_lines"]

_DEADLOCK: Final = "40P01"
_TRIES_AFTER_DEADLOCK: Final = 2
#: Plans for a handful of keys: with many of them Postgres would rather read a whole table.
_SETTINGS: Final = """
SELECT set_config('enable_seqscan', 'off', true)"""
_FACTS: Final = """
SELECT operation_id, type, attempt_id, effect, permanent, replayed, provider_ref, result_sha256
FROM operations_record WHERE operation_id = ANY(%s::uuid[])"""
_TRIES: Final = f"""
SELECT operation_id, {", ".join(f'"{item.name}"' for item in fields(AttemptRow))}
FROM operations_attempt WHERE operation_id = ANY(%s::uuid[]) ORDER BY operation_id, number"""  # noqa: S608
_COMPENSATED: Final = """
SELECT compensation_slot FROM operations_operation WHERE compensation_slot = ANY(%s::uuid[])"""
_READ: Final = """
SELECT record_id, status, received_at, idem_key, code, pointer FROM operations_record
 WHERE environment = %s AND namespace = %s AND record_id = %s"""
_WAITING: Final = """
SELECT idem_key FROM operations_inboxitem
 WHERE environment = %s AND namespace = %s AND matched_at IS NULL AND idem_key = ANY(%s::text[])"""


def ingest_records(
    found: Sequence[str | Parsed], runtime: Runtime, *, verbose: bool = False
) -> dict[str, Any]:
    """Keep and judge 1 to 5,000 records, cut out of a body or texts, in one transaction.

    Answers `{"accepted", "duplicates", "malformed", "incidents", "results"}`; results list what was
    not plainly accepted, or everything if `verbose`.
    """
    for _ in range(_TRIES_AFTER_DEADLOCK):
        try:
            return _answer(_ingest_once(found, runtime), verbose)
        except OperationalError as error:
            # Custom keys can contradict each other in ways that no order of locks foresees.
            is_deadlock = getattr(error.__cause__, "sqlstate", None) == _DEADLOCK
            if not is_deadlock or connection.in_atomic_block:
                raise
    return _answer(_ingest_once(found, runtime), verbose)


def _ingest_once(found: Sequence[str | Parsed], runtime: Runtime) -> list[Reported]:
    batch = [read_one(record) for record in found]
    keeping.mark_repeats(batch)
    with transaction.atomic(), rows.hot_cursor() as cur:
        _Batch(cur, batch, runtime).ingest()
    return batch


def read_record(scope: Scope, record_id: str) -> dict[str, Any] | None:
    """What became of one record, or None."""
    with rows.hot_cursor() as cur:
        cur.execute(_READ, (*scope, record_id))
        row = cur.fetchone()
    if row is None:
        return None
    found = dict(
        zip(("record_id", "status", "received_at", "idem_key", "code", "pointer"), row, strict=True)
    )
    return found | {"received_at": documents.rfc3339(found["received_at"])}


def _answer(batch: Sequence[Reported], verbose: bool) -> dict[str, Any]:
    counts = Counter(record.status for record in batch)
    return {
        "accepted": counts[ACCEPTED],
        "duplicates": counts[DUPLICATE],
        "malformed": counts[MALFORMED],
        "incidents": counts[INCIDENT],
        "results": [
            {
                "record_id": record.record_id,
                "status": record.status,
                "idem_key": record.idem_key,
                "code": record.code,
                "pointer": record.pointer,
            }
            for record in batch
            if verbose or record.status != ACCEPTED
        ],
    }


class _Batch:
    """One batch in its transaction."""

    def __init__(self, cur: Any, batch: Sequence[Reported], runtime: Runtime) -> None:
        self.cur = cur
        self.batch = batch
        self.runtime = runtime
        self.opening = Opening()
        self.older_tools: dict[tuple[str, int | None], ToolFacts] = {}
        self.newborn: list[LockedOperation] = []

    def ingest(self) -> None:
        cur = self.cur
        cur.execute(_SETTINGS)
        known = catalogue.current(cur)
        judged = [record for record in self.batch if record.status != DUPLICATE]
        runs = runs_of(cur, judged, self.runtime)
        calls = calls_of(cur, judged, runs, self.runtime, known)
        self.newborn = [call.op for call in calls if call.is_new]
        before = self._before(calls)
        keeping.mark_conflicts(calls)
        keeping.keep(cur, judged, calls, self.runtime)
        judged = [record for record in judged if record.status != DUPLICATE]
        touched = [call for call in calls if call.reported or _ends_with_its_run(call)]
        self._judge(touched, before, known)
        writing.write_steps(cur, judged, runs)
        broken_promises.contradictions(self.opening, touched, judged)
        broken_promises.changed_versions(self.opening, judged, runs)
        self.opening.write(cur, {call.op.id: call.op for call in touched}, self.runtime)
        writing.write_quiet(cur, touched)

    def _judge(
        self, calls: Sequence[Call], before: Mapping[UUID, Before], known: Catalogue
    ) -> None:
        now = rows.clock(self.cur)
        decisions: list[Decision] = []
        for call in calls:
            facts = self._facts_of(call, known)
            past = before[call.op.id]
            if deciding.is_report_alone(call, past, facts):
                decisions.append(deciding.decide(call, past, facts, now))
            else:
                self._hear(call, Tries(now, past.tries), facts)
        self._carry_out(decisions, now)
        self._match_inbox([call.op for call in calls if call.is_new])

    def _hear(self, call: Call, tries: Tries, facts: ToolFacts) -> None:
        hearsay.judge(self.cur, call, tries, facts, self.opening, self.runtime)
        if _ends_with_its_run(call):
            closing.close_locked(self.cur, call.op, actor=self.runtime.actor)
        if not tries.in_doubt():
            broken_promises.withdraw(self.cur, [call.op], self.runtime)

    def _carry_out(self, decisions: Sequence[Decision], now: datetime) -> None:
        cur, actor = self.cur, self.runtime.actor
        writing.write_tries(cur, decisions, self.runtime, now)
        moves = [move for decision in decisions for move in decision.moves]
        moving = {move.op.id for move in moves if move.to_state is not None}
        births.enter(cur, [op for op in self.newborn if op.id not in moving])
        transitions.transition_many(cur, moves, actor=actor)
        writing.write_payloads(cur, decisions)
        undoubted = []
        for decision in decisions:
            op = decision.call.op
            for kind in decision.incidents:
                self.opening.about_operation(op, kind, f"{op.id}")
            if "possible_duplicate" not in decision.incidents and not decision.call.is_new:
                undoubted.append(op)
        broken_promises.withdraw(cur, undoubted, self.runtime)
        self._tell_compensations([decision.call for decision in decisions if decision.moves])

    def _tell_compensations(self, calls: Sequence[Call]) -> None:
        ended = {
            call.op.id: call.op
            for call in calls
            if call.op.state in states.TERMINAL and not call.is_new
        }
        if ended:
            self.cur.execute(_COMPENSATED, (arrays.plain(ended),))
            for (original,) in self.cur.fetchall():
                endings.tell_compensation(self.cur, ended[original], actor=self.runtime.actor)

    def _match_inbox(self, ops: Sequence[LockedOperation]) -> None:
        """Outcomes that came before anybody had named their operation."""
        if not ops:
            return
        keys = arrays.texts(op.idem_key for op in ops)
        self.cur.execute(_WAITING, (*self.runtime.scope, keys))
        waiting = {row[0] for row in self.cur.fetchall()}
        for op in ops:
            if op.idem_key in waiting:
                tries = attempts.load(self.cur, op)
                early_evidence.take_inbox(self.cur, op, tries, actor=self.runtime.actor)

    def _before(self, calls: Sequence[Call]) -> dict[UUID, Before]:
        found = {call.op.id: Before() for call in calls}
        old = [call.op.id for call in calls if not call.is_new]
        if old:
            ids = arrays.plain(old)
            self.cur.execute(_FACTS, (ids,))
            for op_id, *said in self.cur.fetchall():
                found[op_id].facts.append(_fact(said))
            self.cur.execute(_TRIES, (ids,))
            for op_id, *columns in self.cur.fetchall():
                found[op_id].tries.append(AttemptRow(*columns))
        return found

    def _facts_of(self, call: Call, known: Catalogue) -> ToolFacts:
        """The tool as it was when the operation was recorded."""
        op = call.op
        facts = known.facts(op.tool)
        if facts.version == op.tool_version:
            return facts
        key = (op.tool, op.tool_version)
        if key not in self.older_tools:
            self.older_tools[key] = catalogue.facts_of(self.cur, *key)
        return self.older_tools[key]


def _ends_with_its_run(call: Call) -> bool:
    return call.run is not None and call.run.ends_now


def _fact(said: Sequence[Any]) -> Fact:
    kind, attempt_id, effect, permanent, replayed, provider_ref, digest = said
    return Fact(
        kind or "",
        attempt_id or "",
        effect,
        bool(permanent),
        replayed,
        provider_ref,
        bytes(digest) if digest is not None else None,
    )
