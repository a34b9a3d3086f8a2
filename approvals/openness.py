"""Facts about a request: is it open for this verdict, has this person decided, did policy change.

`check_x` raises the sentence. The instant of expiry is the database's clock, whatever a sweep has
or has not written yet.
"""

from datetime import datetime
from typing import Final

from approvals.errors import Refused
from approvals.models import ApprovalRequest, Decision, User
from operations import states
from operations.documents import rfc3339
from operations.rows import LockedOperation

_CLOSED: Final = {
    "denied": "It was denied.",
    "expired": "It expired: nobody decided in time.",
    "withdrawn": "It was withdrawn.",
    "superseded": "It was superseded by a newer request.",
}


def check_is_open(
    request: ApprovalRequest, op: LockedOperation, verdict: str, now: datetime
) -> None:
    """Raise unless this verdict may still be given.

    An approval is given while the request waits. A denial is taken until the operation is
    terminal, also after an approval and after an expiry: deny wins, also late.
    """
    ended = f" The operation is {op.state}." if op.state in states.TERMINAL else ""
    if verdict == "deny" and request.status in ("pending", "approved", "expired") and not ended:
        return
    if request.status == "approved":
        raise Refused("ALREADY_DECIDED", f"It was approved already.{ended}", status_now="approved")
    if request.status != "pending":
        sentence = _CLOSED[request.status]
        raise Refused("APPROVAL_CLOSED", f"{sentence}{ended}", status_now=request.status)
    if ended:
        raise Refused("APPROVAL_CLOSED", f"There is nothing left to decide.{ended}")
    if request.expires_at <= now:
        raise Refused("APPROVAL_CLOSED", f"It expired at {rfc3339(request.expires_at)}.")
    if op.state != states.PENDING:
        raise Refused(
            "APPROVAL_CLOSED",
            f"The operation is {op.state}: it was sent without this approval.",
        )


def check_is_current(request: ApprovalRequest, op: LockedOperation) -> None:
    """Raise where the operation waits for another request, or its arguments are other ones."""
    if op.args_fingerprint != request.args_fingerprint:
        raise Refused("ARGS_CHANGED", "The call has other arguments than this request asks about.")
    if op.gate_ref != request.handle:
        raise Refused(
            "APPROVAL_CLOSED",
            "The call waits for another request now.",
            approval_id=op.gate_ref,
        )


def check_has_not_decided(request: ApprovalRequest, user: User) -> None:
    """Raise where this person has decided about this request before."""
    earlier = Decision.objects.filter(request=request, user=user).only("verdict").first()
    if earlier is not None:
        raise Refused(
            "ALREADY_DECIDED",
            f"You have decided already: {earlier.verdict}.",
            decision_id=earlier.decision_id,
        )
