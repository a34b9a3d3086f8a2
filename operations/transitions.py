"""The only code that writes `Operation.state`: the row and its event commit together.

`transition()` applies one edge of `states.TRANSITIONS` by compare-and-set on a row that is already
locked; zero rows is a defect, not a success. `record_event()` notes what changes no state.
Both raise the version by one.
"""

import json
from collections.abc import Mapping
from typing import Any

from operations import states
from operations.errors import StateConflict
from operations.rows import JSON_COLUMNS, LockedOperation


def transition(
    cur: Any,
    op: LockedOperation,
    to_state: str,
    event_type: str,
    *,
    actor: str,
    data: Mapping[str, Any] | None = None,
    **columns: Any,
) -> LockedOperation:
    """Carry a locked operation along one edge of the table; `columns` are written with it.

    What follows from the new state alone (lease, waiting, failure, compensation slot) is written
    too and need not be said; what the caller says wins. `data` holds ids, words and digests.
    """
    if not states.allowed(op.state, to_state, event_type):
        raise StateConflict(f"{event_type} does not lead from {op.state} to {to_state}")
    changes = {"state": to_state, **_implied(op, to_state, columns), **columns}
    return _write(cur, op, changes, event_type, (op.state, to_state), actor, data)


def record_event(
    cur: Any,
    op: LockedOperation,
    event_type: str,
    *,
    actor: str,
    data: Mapping[str, Any] | None = None,
    **columns: Any,
) -> LockedOperation:
    """Note a fact that changes no state: permit, approval, verdict kind, incident, closed."""
    if "state" in columns:
        raise StateConflict("record_event never changes the state; use transition")
    return _write(cur, op, columns, event_type, (None, None), actor, data)


def edge_sql(from_state: str, to_state: str, event_type: str, *, written: str, where: str,
             source: str = "") -> str:
    """CTEs `moved` and `told` that carry one edge, for statements that write more in one trip.

    `written` is a SET list, `where` picks the row `o`, `source` is what they may refer to. The
    statement binds `actor` and the event's `data` by name; `moved` returns the new row.
    """
    if not states.allowed(from_state, to_state, event_type):
        raise StateConflict(f"{event_type} does not lead from {from_state} to {to_state}")
    return f"""moved AS (
    UPDATE operations_operation AS o
       SET state = '{to_state}', version = o.version + 1, {written}
      {f"FROM {source}" if source else ""}
     WHERE {where} AND o.state = '{from_state}'
 RETURNING o.*
), told AS (
    INSERT INTO operations_event
        (environment, namespace, operation_id, run_id, version, type, from_state, to_state, actor,
         at, data)
    SELECT environment, namespace, id, run_id, version, '{event_type}', '{from_state}',
           '{to_state}', %(actor)s, updated_at, %(data)s::jsonb
      FROM moved
)"""  # noqa: S608


def _implied(op: LockedOperation, to_state: str, said: Mapping[str, Any]) -> dict[str, Any]:
    if to_state == states.INVOKED:
        lease_end = said["lease_expires_at"]
        return {"waiting_on": "lease", "waiting_until": lease_end, "release_reason": None}
    implied: dict[str, Any] = {"waiting_on": None, "waiting_until": None}
    if op.lease_expires_at is not None:
        implied["lease_expires_at"] = None
    if to_state == states.PENDING:
        implied["waiting_on"] = "runtime"
    elif to_state == states.UNKNOWN:
        # What the last look proved is not about the attempt that has just come into doubt.
        implied |= {"waiting_on": "look", "verdict": None, "release_reason": None}
    elif to_state == states.FAILED and op.compensation_slot is not None:
        implied["compensation_slot"] = None
    if to_state != states.FAILED and op.failure is not None:
        implied["failure"] = None
    return implied


def _write(
    cur: Any,
    op: LockedOperation,
    changes: Mapping[str, Any],
    event_type: str,
    edge: tuple[str | None, str | None],
    actor: str,
    data: Mapping[str, Any] | None,
) -> LockedOperation:
    cur.execute(
        _sql(tuple(changes)),
        (
            *(_encoded(name, value) for name, value in changes.items()),
            op.id,
            op.version,
            op.state,
            event_type,
            *edge,
            actor,
            json.dumps(data or {}, default=str),
        ),
    )
    row = cur.fetchone()
    if row is None:
        raise StateConflict(f"{op.handle} is not {op.state} at version {op.version} any more")
    op.apply(changes)
    op.version, op.updated_at = row
    return op


def _sql(names: tuple[str, ...]) -> str:
    """Names come from keyword arguments in this code base, never from outside."""
    written = "".join(f"{name} = %s{'::jsonb' if name in JSON_COLUMNS else ''}, " for name in names)
    return f"""
WITH moved AS (
    UPDATE operations_operation
       SET {written}version = version + 1, updated_at = clock_timestamp()
     WHERE id = %s AND version = %s AND state = %s
 RETURNING id, environment, namespace, run_id, version, updated_at
)
INSERT INTO operations_event
    (environment, namespace, operation_id, run_id, version, type, from_state, to_state, actor, at,
     data)
SELECT environment, namespace, id, run_id, version, %s, %s, %s, %s, updated_at, %s::jsonb
  FROM moved
RETURNING version, at
"""  # noqa: S608


def _encoded(name: str, value: Any) -> Any:
    return json.dumps(value) if name in JSON_COLUMNS and value is not None else value
