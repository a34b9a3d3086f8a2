"""What a decision does: to its request, to the operation's gate, to grants. One transaction."""

from typing import Any

from django.db import connection

from approvals.errors import Refused
from approvals.models import ApprovalRequest, Decision
from approvals.quorum import Tally, Vote, tally
from operations import settling, transitions
from operations.ledger import publication, waking
from operations.rows import LockedOperation


def votes_of(request: ApprovalRequest) -> list[Vote]:
    """The decisions that count, as votes. An approval falls with its reviewer or its key; a
    denial stands.
    """
    found = Decision.objects.filter(request=request, counts=True).select_related(
        "user", "key", "request"
    )
    return [
        Vote(str(one.user_id), one.user.email.lower(), one.key.key_id, one.verdict)
        for one in found
        if one.verdict == "deny" or (one.user.is_active and _is_believed(one))
    ]


def _is_believed(decision: Decision) -> bool:
    """A compromised key is judged by where its decision stands in the log."""
    key = decision.key
    if key.revoked_reason != "compromised":
        return True
    if not key.bad_from:
        return False
    with connection.cursor() as cur:
        index = publication.index_of(cur, decision.request.operation_id, decision.decision_id)
    return index is not None and index < key.bad_from


def tally_of(request: ApprovalRequest) -> Tally:
    return tally(votes_of(request), request.quorum, request.groups)


def apply(
    cur: Any, op: LockedOperation, request: ApprovalRequest, decision: Decision
) -> tuple[str, str]:
    """Count a fresh decision on locked rows; returns the request's status and what is missing.

    Deny wins at once, also late. The last approval that the rule asks for opens the gate.
    """
    actor = f"user:{decision.user_id}"
    counted = tally_of(request)
    transitions.record_event(
        cur,
        op,
        "approval.decided",
        actor=actor,
        data={
            "approval": request.handle,
            "decision_id": decision.decision_id,
            "verdict": decision.verdict,
            "method": decision.method,
            "custody": decision.custody,
            "key_id": decision.key.key_id,
            "request_sha256": request.sha256,
            "policy_sha256": request.policy_sha256,
            "approvals": counted.approvals,
            "quorum": request.quorum,
        },
    )
    if counted.denied:
        _set_status(cur, request, "denied")
        _revoke_grants(cur, request)
        settling.refuse_gate(cur, op, request.handle, "denied", actor=actor)
    elif counted.met:
        _set_status(cur, request, "approved")
        # Not before the decision is in a published checkpoint: the sequencer opens the gate.
        settling.grant_gate(
            cur, op, request.handle, request.expires_at, actor=actor, waiting_on="sealing"
        )
    waking.wake(cur)
    return request.status, counted.missing


def _set_status(cur: Any, request: ApprovalRequest, status: str) -> None:
    """Compare and set: the row is locked, so another status than the one read is a defect."""
    cur.execute(
        """
        UPDATE approvals_approvalrequest
           SET status = %s, version = version + 1, decided_at = clock_timestamp()
         WHERE id = %s AND status = %s
        """,
        (status, request.id, request.status),
    )
    if cur.rowcount != 1:
        raise Refused("APPROVAL_CLOSED", f"{request.handle} was decided a moment ago.")
    request.status = status


def _revoke_grants(cur: Any, request: ApprovalRequest) -> None:
    cur.execute(
        "UPDATE approvals_grant SET revoked_at = clock_timestamp()"
        " WHERE request_id = %s AND consumed_at IS NULL AND revoked_at IS NULL",
        (request.id,),
    )
