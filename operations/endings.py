"""How an operation ends without an effect, and what its end means for others.

A compensation lives by its original: it may run once the original is COMMITTED, and is cancelled
when the original ends FAILED.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from operations import attempts, rows, states, transitions
from operations.rows import LockedOperation

_FAILING: Final = {
    states.PENDING: "operation.refused",
    states.INVOKED: "operation.failed",
    states.UNKNOWN: "operation.reconciled",
}


def fail(
    cur: Any,
    op: LockedOperation,
    failure: str,
    *,
    actor: str,
    data: Mapping[str, Any] | None = None,
    **columns: Any,
) -> None:
    """To FAILED, for good. The caller has seen that no attempt is in doubt."""
    transitions.transition(
        cur,
        op,
        states.FAILED,
        _FAILING[op.state],
        actor=actor,
        data={**(data or {}), "failure": failure},
        failure=failure,
        **columns,
    )
    tell_compensation(cur, op, actor=actor)


def refuse(
    cur: Any,
    op: LockedOperation,
    failure: str,
    *,
    actor: str,
    data: Mapping[str, Any] | None = None,
    **columns: Any,
) -> None:
    """End a PENDING intent: FAILED, or UNKNOWN and closed while an earlier attempt is in doubt."""
    if attempts.load(cur, op).in_doubt():
        transitions.transition(
            cur,
            op,
            states.UNKNOWN,
            "operation.in_doubt",
            actor=actor,
            data={**(data or {}), "closed_as": failure},
            closed=True,
            closed_as=failure,
            **columns,
        )
    else:
        fail(cur, op, failure, actor=actor, data=data, closed=True, closed_as=failure, **columns)


def tell_compensation(cur: Any, op: LockedOperation, *, actor: str) -> None:
    """Let the live compensation of an operation that has ended run, or cancel it."""
    compensation = live_compensation(cur, op.id)
    if compensation is None or compensation.state != states.PENDING:
        return
    data = {"original": op.handle, "original_state": op.state}
    if op.state == states.FAILED:
        refuse(cur, compensation, "cancelled", actor=actor, data=data)
    else:
        transitions.record_event(
            cur, compensation, "operation.original_committed", actor=actor, data=data,
            waiting_on="approval" if compensation.gate == "waiting" else "runtime",
        )  # fmt: skip


def has_live_compensation(cur: Any, original: UUID) -> bool:
    """Whether somebody chose to undo this operation; looked up under the original's lock."""
    cur.execute("SELECT FROM operations_operation WHERE compensation_slot = %s", (original,))
    return cur.fetchone() is not None


def live_compensation(cur: Any, original: UUID) -> LockedOperation | None:
    """The locked compensation that holds the place of this original's only one."""
    cur.execute("SELECT id FROM operations_operation WHERE compensation_slot = %s", (original,))
    row = cur.fetchone()
    return rows.lock(cur, op_id=row[0]) if row else None
