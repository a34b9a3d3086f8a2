"""Whether an approval may be used now: the last look before anything is executed."""

from datetime import datetime
from typing import Any

from approvals import effects, statements, verification
from approvals.errors import Refused
from approvals.models import ApprovalRequest, Decision
from approvals.refusals import SignatureRefused
from operations import states
from operations.ledger import publication
from operations.rows import LockedOperation


def why_it_does_not_hold(
    cur: Any, op: LockedOperation, request: ApprovalRequest, now: datetime
) -> Refused | None:
    """What stands between a locked operation and its approval; None where it may be used.

    Every stored decision is verified again, from its envelope, against its key.
    """
    if request.status != "approved":
        return Refused("NOT_APPROVED", f"The approval is {request.status}.")
    if op.state != states.PENDING or op.closed:
        return Refused("NOT_APPROVED", f"The operation is {op.state}: nothing can be started.")
    if op.gate != "granted" or op.gate_ref != request.handle or op.gate_used:
        return Refused("GRANT_REVOKED", "The approval was used, revoked or replaced.")
    if request.expires_at <= now:
        return Refused("GRANT_EXPIRED", "The approval was not used in time.")
    if op.args_fingerprint != request.args_fingerprint:
        return Refused("FINGERPRINT_MISMATCH", "The arguments are not the approved ones.")
    if request.quorum == 0:
        # Its rule asks nobody: there is no decision to verify, and none to be published.
        return None
    if not effects.tally_of(request).met:
        return Refused(
            "GRANT_REVOKED", "A reviewer or a key that this approval stands on was withdrawn."
        )
    try:
        for decision in decisions_of(request):
            verification.check_decision(decision, statements.hex_of(request.args_fingerprint))
    except SignatureRefused as error:
        return Refused("GRANT_REVOKED", f"A stored decision does not verify: {error}.")
    if not publication.is_published(cur, op.id, request.handle):
        return Refused("NOT_APPROVED", "The decisions are not in a published checkpoint yet.")
    return None


def decisions_of(request: ApprovalRequest) -> list[Decision]:
    found = Decision.objects.filter(request=request, counts=True, verdict="approve")
    return list(found.select_related("key", "user", "request").order_by("decided_at"))
