"""Silence never approves: a request that nobody decided in time is expired, and written so once.

The sweep only picks ids; each request is then expired under its operation's lock, by
compare-and-set on its status and the database's clock, so that a decision that commits first wins
and a sweep that runs twice does nothing.
"""

import logging
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, connection, transaction

from approvals import requests
from operations import rows, settling, states
from operations.errors import StateConflict
from operations.ids import handle
from operations.rows import LockedOperation

log = logging.getLogger(__name__)
ACTOR: Final = "system:approvals"

_DUE: Final = """
SELECT operation_id FROM approvals_approvalrequest
 WHERE status = 'pending' AND expires_at <= clock_timestamp()
 ORDER BY expires_at LIMIT %s
"""
_EXPIRE: Final = """
UPDATE approvals_approvalrequest
   SET status = 'expired', version = version + 1, decided_at = clock_timestamp()
 WHERE operation_id = %s AND status = 'pending' AND expires_at <= clock_timestamp()
RETURNING id
"""
#: Requests whose operation ended without them: cancelled, superseded, committed by evidence.
_ORPHANED: Final = """
UPDATE approvals_approvalrequest r
   SET status = CASE WHEN o.failure = 'superseded' THEN 'superseded' ELSE 'withdrawn' END,
       version = r.version + 1, decided_at = clock_timestamp()
  FROM operations_operation o
 WHERE r.id IN (
        SELECT w.id FROM approvals_approvalrequest w
          JOIN operations_operation p ON p.id = w.operation_id
         WHERE w.status = 'pending' AND (p.state IN ('COMMITTED', 'FAILED') OR p.closed)
         LIMIT %s FOR UPDATE OF w SKIP LOCKED)
   AND o.id = r.operation_id AND r.status = 'pending'
RETURNING r.id
"""
#: Bytes that nobody signed; what was signed stays with its decision.
_FORGET: Final = """
DELETE FROM approvals_pendingstatement WHERE id IN (
    SELECT id FROM approvals_pendingstatement
     WHERE expires_at < clock_timestamp() - interval '1 day' LIMIT %s)
"""


def expire_due(limit: int = 500) -> dict[str, int]:
    """One sweep; counts of what it ended."""
    with connection.cursor() as cur:
        cur.execute(_DUE, (limit,))
        due = [row[0] for row in cur.fetchall()]
    expired = sum(_expire(op_id) for op_id in due)
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute(_ORPHANED, (limit,))
        orphaned = len(cur.fetchall())
        cur.execute(_FORGET, (limit,))
    return {"expired": expired, "orphaned": orphaned}


def _expire(op_id: UUID) -> bool:
    """One transaction each; one that fails is logged and must not hold up the others."""
    try:
        with transaction.atomic(), connection.cursor() as cur:
            op = rows.lock(cur, op_id=op_id)
            return op is not None and expire_if_due(cur, op)
    except (DatabaseError, StateConflict):
        log.exception("could not expire the approval of operation %s", op_id)
        return False


def expire_if_due(cur: Any, op: LockedOperation) -> bool:
    """Expire the waiting request of a locked operation if its time is over; True if it was."""
    cur.execute(_EXPIRE, (op.id,))
    row = cur.fetchone()
    if row is None:
        return False
    if op.state not in states.TERMINAL:
        settling.refuse_gate(cur, op, handle("apr", row[0]), "expired", actor=ACTOR)
    return True


def withdraw(cur: Any, op: LockedOperation, *, actor: str) -> None:
    """The requester takes the question back: the operation fails as `withdrawn`."""
    ref = op.gate_ref or ""
    requests.close_pending(cur, op.id, "withdrawn")
    settling.refuse_gate(cur, op, ref, "withdrawn", actor=actor)
