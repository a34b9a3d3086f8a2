"""Taking a key back, and with it what stands on it and was not used yet."""

from typing import Final
from uuid import UUID

from django.db import connection, transaction

from approvals import audit, effects
from approvals.errors import Refused
from approvals.models import ApprovalRequest, ReviewerKey
from operations import rows, settling, states

REASONS: Final = ("superseded", "lost", "compromised")


def revoke(key: ReviewerKey, reason: str, *, actor: str, bad_from: int = 0) -> int:
    """Revoke a key; returns how many approvals were revoked with it.

    A superseded or lost key leaves earlier decisions good. A compromised one does not: approvals
    that need its decision are revoked on the row that claims and senders lock. `bad_from` is the
    first index of the log from which it is not believed; 0: nothing it ever signed is.
    """
    if reason not in REASONS:
        raise Refused("VALIDATION_ERROR", f"A reason is one of {', '.join(REASONS)}.")
    if bad_from < 0:
        raise Refused("VALIDATION_ERROR", "The log's entries count from 0.", pointer="/bad_from")
    with transaction.atomic(), connection.cursor() as cur:
        row = ReviewerKey.objects.select_for_update(of=("self",)).get(id=key.id)
        if row.revoked_at is not None and row.revoked_reason in (reason, "compromised"):
            raise Refused("ALREADY_DECIDED", f"The key was revoked before: {row.revoked_reason}.")
        row.revoked_at = row.revoked_at or rows.clock(cur)
        row.revoked_reason = reason
        row.bad_from = bad_from if reason == "compromised" else None
        row.save(update_fields=["revoked_at", "revoked_reason", "bad_from"])
        data = {"key_id": row.key_id, "user": str(row.user_id), "reason": reason,
                "bad_from": row.bad_from}  # fmt: skip
        audit.note(cur, "key.revoked", actor=actor, data=data)
    if reason != "compromised":
        return 0
    standing = ApprovalRequest.objects.filter(
        decisions__key=key, decisions__counts=True, status="approved"
    )
    waiting = standing.filter(operation__state__in=[states.PENDING, states.INVOKED]).distinct()
    return sum(_reconsider(one.operation_id, one.id, actor) for one in waiting)


def _reconsider(op_id: UUID, request_id: UUID, actor: str) -> bool:
    with transaction.atomic(), connection.cursor() as cur:
        op = rows.lock(cur, op_id=op_id)
        request = ApprovalRequest.objects.select_for_update(of=("self",)).get(id=request_id)
        if op is None or op.gate_ref != request.handle or op.gate != "granted":
            return False
        if effects.tally_of(request).met:
            return False
        settling.revoke_gate(cur, op, request.handle, actor=actor)
        return True
