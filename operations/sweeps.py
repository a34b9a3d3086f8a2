"""Silence, worked on: leases that ran out, replay windows that closed, evidence left over.

Run about once a second. Rows that somebody else is busy with are left for the next round.
"""

import logging
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction

from operations import (
    attempts,
    catalogue,
    early_evidence,
    leases,
    permits,
    rows,
    states,
    transitions,
)
from operations.actors import SWEEPER
from operations.errors import DomainError, StateConflict
from operations.rows import LockedOperation

log = logging.getLogger(__name__)

_LAPSED: Final = """
SELECT operation_id FROM operations_standing
 WHERE state = 'INVOKED' AND due_at <= clock_timestamp() ORDER BY due_at LIMIT %s
"""
_WINDOWS: Final = """
SELECT operation_id FROM operations_standing
 WHERE state = 'PENDING' AND waiting_on = 'runtime' AND due_at <= clock_timestamp()
 ORDER BY due_at LIMIT %s
"""
#: Evidence that crossed with the claim of its key, or that names an attempt never issued: the
#: latter waits for a claim, unless there is nobody left who would claim.
_LEFT_OVER: Final = """
SELECT o.id FROM operations_inboxitem i
  JOIN operations_operation o ON o.environment = i.environment AND o.namespace = i.namespace
                             AND o.idem_key = i.idem_key
 WHERE i.matched_at IS NULL AND i.received_at < clock_timestamp() - interval '2 seconds'
   AND (i.source <> 'outcome:never-issued' OR o.state = 'UNKNOWN')
 GROUP BY o.id LIMIT %s
"""
_LOCK: Final = f"""
SELECT {rows.COLUMNS} FROM operations_operation o JOIN operations_run r ON r.id = o.run_id
 WHERE o.id = %s FOR NO KEY UPDATE OF o SKIP LOCKED
"""  # noqa: S608


def run_once(limit: int = 500) -> dict[str, int]:
    """One round over at most `limit` rows of each kind; how many it changed."""
    return {
        "lapsed": _each(_LAPSED, limit, _lapse),
        "windows_closed": _each(_WINDOWS, limit, _close_window),
        "evidence_matched": _each(_LEFT_OVER, limit, _match),
    }


def _each(candidates: str, limit: int, work: Callable[[Any, LockedOperation], bool]) -> int:
    with rows.hot_cursor() as cur:
        cur.execute(candidates, (limit,))
        found: list[UUID] = [row[0] for row in cur.fetchall()]
    return sum(_one(op_id, work) for op_id in found)


def _one(op_id: UUID, work: Callable[[Any, LockedOperation], bool]) -> bool:
    """Each in a transaction of its own: one row that cannot be judged never holds up the rest."""
    try:
        with transaction.atomic(), rows.hot_cursor() as cur:
            cur.execute(_LOCK, (op_id,))
            row = cur.fetchone()
            return row is not None and work(cur, rows.from_tuple(row))
    except (StateConflict, DomainError, IntegrityError):
        log.exception("operation %s could not be swept", op_id)
        return False


def _lapse(cur: Any, op: LockedOperation) -> bool:
    before = op.version
    leases.lapse(cur, op, attempts.load(cur, op))
    return op.version != before


def _close_window(cur: Any, op: LockedOperation) -> bool:
    return close_window(cur, op, attempts.load(cur, op), actor=SWEEPER)


def close_window(cur: Any, op: LockedOperation, tries: attempts.Tries, *, actor: str) -> bool:
    """A `replay` release holds while the provider knows our key; after that, doubt again."""
    if op.state != states.PENDING or op.release_reason != "replay":
        return False
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    closes_at = permits.key_window_end(op, facts)
    if closes_at is None or closes_at > tries.now or not tries.in_doubt():
        return False
    transitions.transition(
        cur, op, states.UNKNOWN, "operation.in_doubt", actor=actor,
        data={"reason": "key_window_closed"},
    )  # fmt: skip
    return True


def _match(cur: Any, op: LockedOperation) -> bool:
    early_evidence.take_inbox(cur, op, attempts.load(cur, op), actor=SWEEPER)
    return True
