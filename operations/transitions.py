"""The only code that writes `Operation.state`: the row and its event commit together.

`transition()` applies one edge of `states.TRANSITIONS` by compare-and-set on a row that is already
locked; zero rows is a defect, not a success. `record_event()` notes what changes no state.
Both raise the version by one.
"""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from operations import arrays, states
from operations.errors import StateConflict
from operations.rows import JSON_COLUMNS, LockedOperation, encoded

#: Verdicts that a commit does not contradict; "" is none at all.
_AGREEING: Final = frozenset({"", "committed", "committed_late", "duplicate"})


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


def edge_sql(
    from_state: str, to_state: str, event_type: str, *, written: str, source: str, where: str
) -> str:
    """CTEs `moved` and `told` that carry many rows along one edge, for statements that write more.

    `source` is the CTE that says what to do: a row for each operation, with `op` (its id), the
    event's `actor` and its `data`. `written` is a SET list and `where` picks the rows `o`; both may
    refer to `source`. `moved` returns the new rows.
    """
    if not states.allowed(from_state, to_state, event_type):
        raise StateConflict(f"{event_type} does not lead from {from_state} to {to_state}")
    return f"""moved AS (
    UPDATE operations_operation AS o
       SET state = '{to_state}', version = o.version + 1, {written}
      FROM {source}
     WHERE o.id = {source}.op AND {where} AND o.state = '{from_state}'
 RETURNING o.*
), told AS (
    INSERT INTO operations_event
        (environment, namespace, operation_id, run_id, version, type, from_state, to_state, actor,
         at, data)
    SELECT moved.environment, moved.namespace, moved.id, moved.run_id, moved.version,
           '{event_type}', '{from_state}', '{to_state}', {source}.actor, moved.updated_at,
           {source}.data
      FROM moved JOIN {source} ON {source}.op = moved.id
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
    elif to_state == states.COMMITTED and (op.verdict or {}).get("kind", "") not in _AGREEING:
        # A look that was still waiting, or saw nothing, is overtaken; its events keep what it said.
        implied["verdict"] = None
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
            *(encoded(name, value) for name, value in changes.items()),
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


@dataclass(slots=True)
class Move:
    """One change of one locked operation, to be carried out with many others.

    Without `to_state` it is a fact that changes no state, as in `record_event`.
    """

    op: LockedOperation
    event_type: str
    to_state: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)


def transition_many(cur: Any, moves: Iterable[Move], *, actor: str) -> None:
    """Carry out many moves of many locked operations, set-based: same table, same guard.

    Several moves of one operation happen in their order, in rounds: one statement for each round
    and set of columns, however many operations there are.
    """
    waiting: defaultdict[UUID, deque[Move]] = defaultdict(deque)
    for move in moves:
        waiting[move.op.id].append(move)
    while waiting:
        groups: defaultdict[tuple[str, ...], list[tuple[Move, dict[str, Any]]]] = defaultdict(list)
        for op_id in list(waiting):
            move = waiting[op_id].popleft()
            if not waiting[op_id]:
                del waiting[op_id]
            changes = _changes_of(move)
            groups[tuple(changes)].append((move, changes))
        for names, group in groups.items():
            _write_many(cur, names, group, actor)


def _changes_of(move: Move) -> dict[str, Any]:
    op, to_state = move.op, move.to_state
    if to_state is None:
        if "state" in move.columns:
            raise StateConflict("only a move with a to_state changes the state")
        return dict(move.columns)
    if not states.allowed(op.state, to_state, move.event_type):
        raise StateConflict(f"{move.event_type} does not lead from {op.state} to {to_state}")
    return {"state": to_state, **_implied(op, to_state, move.columns), **move.columns}


def _write_many(
    cur: Any,
    names: tuple[str, ...],
    group: Sequence[tuple[Move, Mapping[str, Any]]],
    actor: str,
) -> None:
    ops = [move.op for move, _ in group]
    written = [_LITERALS[_TYPES[name]](changes[name] for _, changes in group) for name in names]
    cur.execute(
        _sql_many(names),
        (
            arrays.plain(op.id for op in ops),
            arrays.plain(op.version for op in ops),
            arrays.texts(op.state for op in ops),
            arrays.texts(move.event_type for move, _ in group),
            arrays.texts(move.to_state for move, _ in group),
            arrays.documents(move.data for move, _ in group),
            *written,
            actor,
        ),
    )
    told = {row[0]: row[1:] for row in cur.fetchall()}
    if len(told) != len(group):
        raise StateConflict(f"{len(group) - len(told)} operations are not what was locked")
    for move, changes in group:
        move.op.apply(changes)
        move.op.version, move.op.updated_at = told[move.op.id]


#: Postgres types of the columns that moves of many operations may write.
_TYPES: Final = {
    **dict.fromkeys(
        ("state", "failure", "closed_as", "waiting_on", "release_reason", "provider_ref"), "text"
    ),
    **dict.fromkeys(("effect_status", "args_fingerprint", "goal", "currency"), "text"),
    **dict.fromkeys(
        ("waiting_until", "lease_expires_at", "first_sent_at", "key_expires_at"), "timestamptz"
    ),
    **dict.fromkeys(("attempt_number", "attempts", "replays"), "int"),
    **dict.fromkeys(("verdict", "flags"), "jsonb"),
    "amount_minor": "bigint",
    "closed": "boolean",
    "compensation_slot": "uuid",
}
_LITERALS: Final[dict[str, Callable[[Iterable[Any]], str]]] = {
    "text": arrays.texts,
    "timestamptz": arrays.moments,
    "jsonb": arrays.documents,
    **dict.fromkeys(("int", "bigint", "boolean", "uuid"), arrays.plain),
}


def _sql_many(names: tuple[str, ...]) -> str:
    columns = ", ".join(f"said_{name}" for name in names)
    types = "".join(f", %s::{_TYPES[name]}[]" for name in names)
    written = "".join(f"{name} = said_{name}, " for name in names)
    return f"""
WITH said AS (
    SELECT * FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::text[], %s::text[], %s::jsonb[]
                         {types})
        WITH ORDINALITY AS s(op, was, from_state, type, to_state, data{", " if names else ""}
                             {columns}, n)
), moved AS (
    UPDATE operations_operation AS o
       SET {written}version = o.version + 1, updated_at = clock_timestamp()
      FROM said
     WHERE o.id = said.op AND o.version = said.was AND o.state = said.from_state
 RETURNING o.id, o.environment, o.namespace, o.run_id, o.version, o.updated_at
)
INSERT INTO operations_event
    (environment, namespace, operation_id, run_id, version, type, from_state, to_state, actor, at,
     data)
SELECT moved.environment, moved.namespace, moved.id, moved.run_id, moved.version, said.type,
       CASE WHEN said.to_state IS NOT NULL THEN said.from_state END, said.to_state, %s,
       moved.updated_at, said.data
  FROM moved JOIN said ON said.op = moved.id
 ORDER BY said.n
RETURNING operation_id, version, at
"""  # noqa: S608
