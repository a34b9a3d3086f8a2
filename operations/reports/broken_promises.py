"""Incidents that follow from a set of records: opened once, and withdrawn where the set no longer
shows them.

Only `possible_duplicate` can be withdrawn: a doubt beside a commit ends when the attempt in doubt
tells its outcome. Whatever order the records came in, the same incidents are left.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from operations import arrays, states, transitions
from operations.actors import Runtime
from operations.documents import WITHDRAWN
from operations.ids import handle, uuid7
from operations.reports.births import Call
from operations.reports.reported import INCIDENT, Reported, RunSaid
from operations.reports.runs import RunRow
from operations.rows import LockedOperation
from operations.transitions import Move

_OPEN: Final = """
INSERT INTO operations_incident
    (id, environment, namespace, kind, operation_id, run_id, cause, details, times_seen)
SELECT id, %s, %s, kind, operation, run, cause, details, 1
FROM unnest(%s::uuid[], %s::text[], %s::uuid[], %s::uuid[], %s::text[], %s::jsonb[])
    AS said(id, kind, operation, run, cause, details)
ORDER BY kind, cause
ON CONFLICT (environment, namespace, kind, cause) DO UPDATE
   SET resolved_at = NULL, resolved_by = NULL
 WHERE operations_incident.resolved_by = %s
RETURNING id, kind, operation_id, run_id"""
_TELL: Final = """
INSERT INTO operations_event (environment, namespace, run_id, type, actor, data)
SELECT %s, %s, run, 'incident.opened', %s, data
FROM unnest(%s::uuid[], %s::jsonb[]) AS said(run, data)"""
_WITHDRAW: Final = """
UPDATE operations_incident SET resolved_at = clock_timestamp(), resolved_by = %s
 WHERE kind = 'possible_duplicate' AND resolved_at IS NULL AND operation_id = ANY(%s::uuid[])
RETURNING id, operation_id"""


class Opening:
    """Incidents to open, gathered over a batch."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], tuple[UUID | None, UUID | None, dict[str, Any]]] = {}

    def about_operation(self, op: LockedOperation, kind: str, cause: str, **details: Any) -> None:
        self._rows.setdefault((kind, cause), (op.id, op.run_pk, details))

    def about_run(self, run: RunRow, kind: str, **details: Any) -> None:
        self._rows.setdefault((kind, f"{run.pk}:records"), (None, run.pk, details))

    def about_record(self, record: Reported) -> None:
        details = {"record_id": record.record_id, "kept_as": record.kept_as}
        self._rows.setdefault(("record_id_reused", record.record_id), (None, None, details))

    def write(self, cur: Any, ops: dict[UUID, LockedOperation], runtime: Runtime) -> None:
        """Open what is not open yet; each new one raises its operation's version."""
        if not self._rows:
            return
        rows = [(uuid7(), *key, *value) for key, value in self._rows.items()]
        cur.execute(
            _OPEN,
            (
                *runtime.scope,
                arrays.plain(row[0] for row in rows),
                arrays.texts(row[1] for row in rows),
                arrays.plain(row[3] for row in rows),
                arrays.plain(row[4] for row in rows),
                arrays.texts(row[2] for row in rows),
                arrays.documents(row[5] for row in rows),
                WITHDRAWN,
            ),
        )
        opened = cur.fetchall()
        _tell(cur, opened, ops, runtime)


def _tell(
    cur: Any,
    opened: Sequence[tuple[UUID, str, UUID | None, UUID | None]],
    ops: dict[UUID, LockedOperation],
    runtime: Runtime,
) -> None:
    moves = []
    others = []
    for incident, kind, op_id, run in sorted(opened):
        told = {"incident": handle("inc", incident), "kind": kind}
        if op_id is not None:
            moves.append(Move(ops[op_id], "operation.incident", None, told))
        else:
            others.append((run, told))
    transitions.transition_many(cur, moves, actor=runtime.actor)
    if others:
        runs, data = zip(*others, strict=True)
        params = (*runtime.scope, runtime.actor, arrays.plain(runs), arrays.documents(data))
        cur.execute(_TELL, params)


def withdraw(cur: Any, ops: Iterable[LockedOperation], runtime: Runtime) -> None:
    """No attempt of these COMMITTED operations is in doubt any more."""
    by_id = {op.id: op for op in ops if op.state == states.COMMITTED}
    if not by_id:
        return
    cur.execute(_WITHDRAW, (WITHDRAWN, arrays.plain(by_id)))
    moves = [
        Move(
            by_id[op_id],
            "operation.incident_withdrawn",
            None,
            {"incident": handle("inc", incident), "kind": "possible_duplicate"},
        )
        for incident, op_id in cur.fetchall()
    ]
    transitions.transition_many(cur, moves, actor=runtime.actor)


def contradictions(opening: Opening, calls: Iterable[Call], batch: Iterable[Reported]) -> None:
    """Incidents of single records: another content, another call, an id used twice."""
    for call in calls:
        for record in call.reported:
            if record.conflict is not None:
                opening.about_operation(
                    call.op,
                    "args_conflict",
                    f"{call.op.id}:records",
                    problem=record.conflict,
                    record_id=record.record_id,
                    recorded={"tool": call.op.tool, "args_fingerprint": call.op.args_fingerprint},
                    claimed={"tool": record.tool, "args_fingerprint": record.args_fingerprint},
                )
    for record in batch:
        if record.code == "RECORD_ID_REUSED" and record.status == INCIDENT:
            opening.about_record(record)


def changed_versions(opening: Opening, batch: Iterable[Reported], runs: dict[str, RunRow]) -> None:
    """A run finishes on the version it started with."""
    seen: set[RunSaid] = set()
    for record in batch:
        said = record.run
        if said is None or said in seen:
            continue
        seen.add(said)
        run = runs[said.id]
        if run.differs_from(said):
            opening.about_run(run, "version_changed", record_id=record.record_id)
