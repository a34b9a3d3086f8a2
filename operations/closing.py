"""The intent is no longer wanted: cancelled, closed, or its run is over.

A closed intent is never released. PENDING ends at once; INVOKED ends with its attempt; UNKNOWN is
settled by evidence, to COMMITTED or FAILED.
"""

from typing import Any, Final
from uuid import UUID

from django.db import transaction

from operations import answers, attempts, endings, leases, rows, runs, states, transitions
from operations.actors import Runtime
from operations.errors import DomainError, not_found
from operations.rows import LockedOperation

_UNFINISHED: Final = """
SELECT id FROM operations_operation
 WHERE run_id = %s AND state IN ('PENDING', 'INVOKED', 'UNKNOWN') AND NOT closed
 ORDER BY id
"""
_END_RUN: Final = """
UPDATE operations_run SET status = %s, finished_at = clock_timestamp()
 WHERE id = %s AND status = 'running'
"""


def cancel(runtime: Runtime, idem_key: str) -> dict[str, Any]:
    """End a PENDING operation; NOT_CANCELLABLE for any other. Answers like outcome."""
    with transaction.atomic(), rows.hot_cursor() as cur:
        op = _lock(cur, runtime, idem_key)
        if op.state == states.PENDING:
            endings.refuse(cur, op, "cancelled", actor=runtime.actor)
            return _answer(cur, op)
    raise DomainError(
        "NOT_CANCELLABLE",
        f"The operation is {op.state}; only PENDING can be cancelled. `close` says that it is no"
        " longer wanted.",
        idem_key=idem_key,
    )


def close(runtime: Runtime, idem_key: str) -> dict[str, Any]:
    """The intent is no longer wanted, whatever its state; answers like outcome."""
    with transaction.atomic(), rows.hot_cursor() as cur:
        op = _lock(cur, runtime, idem_key)
        close_locked(cur, op, actor=runtime.actor)
        return _answer(cur, op)


def close_locked(cur: Any, op: LockedOperation, *, actor: str, failure: str = "cancelled") -> None:
    """Close a locked intent; `failure` is how it ends once it is sure that nothing happened."""
    if op.state == states.PENDING:
        endings.refuse(cur, op, failure, actor=actor)
    elif op.state in (states.INVOKED, states.UNKNOWN) and not op.closed:
        transitions.record_event(
            cur, op, "operation.closed", actor=actor, data={"closed_as": failure}, closed=True,
            closed_as=failure,
        )  # fmt: skip


def supersede(cur: Any, op: LockedOperation, by: LockedOperation, *, actor: str) -> None:
    """An approver edited the call: the original ends, and names what takes its place."""
    endings.refuse(
        cur, op, "superseded", actor=actor, data={"superseded_by": by.handle},
        superseded_by_id=by.id,
    )  # fmt: skip


def close_run(cur: Any, run_pk: UUID, status: str, *, actor: str) -> int:
    """End a run and close what is unfinished in it; returns how many operations that were.

    By `RUN_FINISHED` or by a person, never by silence. Locks the run, then its operations by age.
    """
    runs.lock(cur, run_pk)
    cur.execute(_END_RUN, (status, run_pk))
    cur.execute(_UNFINISHED, (run_pk,))
    unfinished = [row[0] for row in cur.fetchall()]
    for op_id in unfinished:
        op = rows.lock(cur, op_id=op_id)
        if op is not None:
            close_locked(cur, op, actor=actor)
    return len(unfinished)


def _lock(cur: Any, runtime: Runtime, idem_key: str) -> LockedOperation:
    op = rows.lock(cur, scope=runtime.scope, idem_key=idem_key)
    if op is None:
        raise not_found()
    if op.state == states.INVOKED:
        leases.lapse(cur, op, attempts.load(cur, op), actor=runtime.actor)
    return op


def _answer(cur: Any, op: LockedOperation) -> dict[str, Any]:
    return {"operation": answers.document(cur, op), "superseded": False}
