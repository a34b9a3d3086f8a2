"""Whether decisions are in a published checkpoint, and the gates that open once they are."""

from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from operations import gates, rows
from operations.actors import SEQUENCER

_LIMIT: Final = 500
_WAITING: Final = """
SELECT operation_id FROM operations_standing
 WHERE waiting_on = 'sealing' AND state = 'PENDING' ORDER BY operation_id LIMIT %s
"""
_DECIDED: Final = ["approval.decided", "operation.gate_granted"]
_UNPUBLISHED: Final = """
SELECT count(*), count(*) FILTER (WHERE s.seq IS NULL OR s.seq > coalesce((
           SELECT max(size) FROM operations_checkpoint
            WHERE log_id = (SELECT max(id) FROM operations_ledgerlog)), 0))
  FROM operations_event e LEFT JOIN operations_sealedevent s ON s.event_id = e.id
 WHERE e.operation_id = %s AND e.type = ANY(%s) AND e.data->>'approval' = %s
"""
_PLACE: Final = """
SELECT s.seq FROM operations_event e JOIN operations_sealedevent s ON s.event_id = e.id
 WHERE e.operation_id = %s AND e.type = 'approval.decided' AND e.data->>'decision_id' = %s
"""


def is_published(cur: Any, op_id: UUID, approval: str) -> bool:
    """Whether every decision on an approval stands in a checkpoint that anybody may have seen."""
    cur.execute(_UNPUBLISHED, (op_id, _DECIDED, approval))
    decided, unpublished = cur.fetchone()
    return bool(decided > 0 and unpublished == 0)


def index_of(cur: Any, op_id: UUID, decision_id: str) -> int | None:
    """Where a decision stands in the log; None where it is not sealed yet."""
    cur.execute(_PLACE, (op_id, decision_id))
    row = cur.fetchone()
    return row[0] - 1 if row else None


def open_gates() -> int:
    """Let runtimes go on whose decisions have been published; how many that were."""
    with connection.cursor() as cur:
        cur.execute(_WAITING, (_LIMIT,))
        waiting = [row[0] for row in cur.fetchall()]
    return sum(_open(op_id) for op_id in waiting)


def _open(op_id: UUID) -> bool:
    with transaction.atomic(), connection.cursor() as cur:
        op = rows.lock(cur, op_id=op_id)
        if op is None or op.waiting_on != "sealing" or op.gate_ref is None:
            return False
        if not is_published(cur, op.id, op.gate_ref):
            return False
        gates.seal_gate(cur, op, op.gate_ref, actor=SEQUENCER)
        return True
