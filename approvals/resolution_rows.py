"""Rows of signed resolutions: written once, counted in pairs where it takes two."""

from typing import Any

from approvals import signing
from approvals.attachments import digest_or_none
from approvals.errors import Refused
from approvals.models import PendingStatement, Resolution, User
from approvals.signing import Proof
from operations import transitions
from operations.ledger import waking
from operations.rows import LockedOperation


def record(
    op: LockedOperation,
    pending: PendingStatement,
    proof: Proof,
    user: User,
    predicate: dict[str, Any],
    *,
    applied: bool,
) -> Resolution:
    return Resolution.objects.create(
        operation_id=op.id,
        choice=predicate["decision"],
        provider_ref=predicate["provider_ref"],
        evidence_sha256=predicate["evidence"]["sha256"],
        reason=predicate["reason"]["text"],
        applied=applied,
        fetched=pending.attachment if predicate["evidence"]["object_sha256"] else None,
        **signing.signed_columns(pending, proof, user),
    )


def waiting_for_second(
    op: LockedOperation, choice: str, digest: str, user: User, proof: Proof
) -> Resolution | None:
    """The same choice over the same evidence by another person with another key, not applied."""
    rows = Resolution.objects.filter(
        operation_id=op.id, choice=choice, evidence_sha256=digest, applied=False
    )
    return rows.exclude(user=user).exclude(key__key_id=proof.key.key_id).first()


def check_has_not_signed(op: LockedOperation, user: User, choice: str, digest: str) -> None:
    """The first of two cannot be the second as well; over changed evidence anybody starts anew."""
    waiting = Resolution.objects.filter(
        operation_id=op.id, user=user, applied=False, choice=choice, evidence_sha256=digest
    )
    if waiting.exists():
        raise Refused(
            "ALREADY_DECIDED", "You have signed this already; a second person has to, without you."
        )


def note(cur: Any, op: LockedOperation, resolution: Resolution, *, actor: str) -> None:
    waking.wake(cur)
    transitions.record_event(
        cur,
        op,
        "resolution.signed",
        actor=actor,
        data={
            "decision_id": resolution.decision_id,
            "choice": resolution.choice,
            "method": resolution.method,
            "custody": resolution.custody,
            "key_id": resolution.key.key_id,
            "evidence_sha256": resolution.evidence_sha256,
            "object_sha256": digest_or_none(resolution.fetched),
            "applied": resolution.applied,
        },
    )
