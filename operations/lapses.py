"""What a lease that ran out means, and an attempt that is over and did nothing."""

from datetime import datetime
from typing import Any

from operations import attempts, catalogue, endings, states, transitions
from operations.actors import SWEEPER
from operations.attempts import Tries
from operations.errors import StateConflict
from operations.rows import LockedOperation


def is_over(op: LockedOperation, now: datetime) -> bool:
    """Whether an INVOKED operation's lease has run out: nobody holds it any more."""
    return (
        op.state == states.INVOKED
        and op.lease_expires_at is not None
        and op.lease_expires_at <= now
    )


def lapse(cur: Any, op: LockedOperation, tries: Tries, *, actor: str = SWEEPER) -> None:
    """What a lease that ran out means; nothing where it has not.

    A fenced attempt without a permit has sent nothing; any other is in doubt. Silence is never
    taken as failure.
    """
    if not is_over(op, tries.now):
        return
    attempt = tries.live
    if attempt is None:
        raise StateConflict(f"{op.handle} is INVOKED without a live attempt")
    told = {"attempt": attempt.number, "reason": "lease_expired"}
    if attempt.may_have_sent:
        facts = catalogue.facts_of(cur, op.tool, op.tool_version)
        attempts.doubt(cur, attempt, "lapsed", facts, tries.now)
        transitions.transition(
            cur, op, states.UNKNOWN, "operation.in_doubt", actor=actor, data=told
        )
        return
    attempts.end(cur, attempt, "not_sent", "lapsed", tries.now)
    not_sent(cur, op, tries, actor=actor, data=told)


def not_sent(
    cur: Any, op: LockedOperation, tries: Tries, *, actor: str, data: dict[str, Any]
) -> None:
    """The live attempt is over and has done nothing: doubt of another, the end, or once more."""
    if tries.in_doubt():
        transitions.transition(
            cur, op, states.UNKNOWN, "operation.in_doubt", actor=actor, data=data
        )
    elif op.closed:
        endings.fail(cur, op, op.closed_as or "cancelled", actor=actor, data=data)
    else:
        transitions.transition(
            cur, op, states.PENDING, "operation.not_sent", actor=actor, data=data, gate_used=False
        )
