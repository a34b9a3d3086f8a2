"""Approve or deny: one person, one request, one signature.

`start` builds the bytes and changes nothing about the request; `finish` takes one answer, checks
everything again under locks and applies it. Lock order: statement, operation, request, key.
A refusal is committed with its audit entry before it is raised: the statement's one try is spent.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from approvals import (
    arguments,
    audit,
    effects,
    expiry,
    ledger,
    openness,
    permissions,
    reconsider,
    showing,
    signing,
    statements,
)
from approvals.display import Display
from approvals.errors import Refused, not_found, of_signature
from approvals.models import ApprovalRequest, Decision, PendingStatement, ReviewerKey, User
from approvals.refusals import SignatureRefused
from approvals.signing import Ceremony, Proof
from operations import rows
from operations.ids import parse_handle
from operations.rows import LockedOperation

KIND = "approval"


@dataclass(frozen=True)
class Decided:
    """What a decision came to. `replayed`: this very answer was recorded before."""

    decision_id: str
    verdict: str
    approval_id: str
    status: str
    missing: str
    replayed: bool = False


def find(approval_id: str) -> ApprovalRequest:
    """The request behind a handle, for people; NOT_FOUND for anything else."""
    wanted = parse_handle("apr", approval_id)
    request = ApprovalRequest.objects.filter(id=wanted).first() if wanted else None
    if request is None:
        raise not_found()
    return request


def check_person(user: User, request: ApprovalRequest, verdict: str) -> None:
    """Raise where this person may not give this verdict on this request."""
    permissions.check_may(user, "decide")
    if verdict == "approve":
        document = json.loads(bytes(request.document))
        permissions.check_is_not_maker(
            user,
            requester=request.requester,
            launched_by=request.launched_by,
            published_by=document["published_by"],
            never=document["never"],
        )
        permissions.check_is_in_groups(user, request.groups, request.quorum)
    openness.check_has_not_decided(request, user)


def why_not(user: User, approval_id: str, verdict: str) -> str | None:
    """The sentence a page shows in place of the button; None where the person may go on."""
    request = find(approval_id)
    with connection.cursor() as cur:
        op = _operation(cur, request)
        try:
            check_person(user, request, verdict)
            openness.check_is_open(request, op, verdict, rows.clock(cur))
        except Refused as refused:
            return refused.detail
    return None


def start(
    user: User,
    session: str,
    approval_id: str,
    verdict: str,
    *,
    key: ReviewerKey,
    reason: str = "",
    reason_code: str = "",
    opened: Collection[str] = (),
) -> Ceremony:
    """Build the statement of this verdict; raises Refused with what stands in the way.

    `opened` are the paths of folded values that the person opened before signing.
    """
    ledger.check()
    if verdict not in statements.VERDICTS:
        raise Refused("VALIDATION_ERROR", "A verdict is approve or deny.", pointer="/verdict")
    reason = signing.check_reason(reason)
    with transaction.atomic(), connection.cursor() as cur:
        request = find(approval_id)
        op = _operation(cur, request)
        now = rows.clock(cur)
        openness.check_is_open(request, op, verdict, now)
        check_person(user, request, verdict)
        permissions.check_key(user, key, request.min_custody)
        openness.check_is_current(request, op)
        shown = show(cur, request)
        document = json.loads(bytes(request.document))
        coverage = coverage_of(shown, opened)
        if verdict == "approve" and document["coverage"] == "full" and coverage == "partial":
            raise Refused(
                "VALIDATION_ERROR",
                "The rule asks that every folded value is opened before approving: "
                f"{', '.join(shown.folded)}.",
            )
        predicate = {
            "decision": verdict,
            "request": {
                "id": request.handle,
                "nonce": document["nonce"],
                "sha256": request.sha256,
            },
            "call": document["call"],
            "agent": document["agent"],
            "scope": {
                "environment": request.environment,
                "audience": document["scope"]["audience"],
            },
            "policy": document["policy"],
            "reviewer": signing.reviewer_of(user, key),
            "validity": {
                "decided_at": statements.instant(now),
                "expires_at": document["expires_at"],
            },
            "reason": {"code": reason_code, "text": reason},
            "display": signing.display_member(shown, coverage),
            "log": ledger.seen(cur),
        }
        fingerprint = statements.hex_of(request.args_fingerprint)
        raw = statements.build(statements.DECISION, op.idem_key, fingerprint, predicate)
        pending = PendingStatement(user=user, session=session, kind=KIND, request=request)
        return signing.open_ceremony(pending, key, raw, shown, now)


def show(cur: Any, request: ApprovalRequest) -> Display:
    """`text/v1` of a request, from its document and the stored args."""
    args = arguments.read(cur, request.operation_id, request.args_fingerprint)
    return showing.of_request(json.loads(bytes(request.document)), args)


def coverage_of(shown: Display, opened: Collection[str]) -> str:
    """`full` where nothing was folded, `opened` where all that was folded was opened."""
    if not shown.folded:
        return "full"
    return "opened" if set(shown.folded) <= set(opened) else "partial"


def finish(
    user: User, session: str, statement_id: str, answer: object, *, approval_id: str
) -> Decided:
    """Take the one answer to a pending statement about this approval.

    The same answer again gives the same decision; another one, or one after a refusal, is
    STATEMENT_STALE. Raises Refused with what happened.
    """
    result: Decided | Refused
    with transaction.atomic(), connection.cursor() as cur:
        pending = signing.take(user, session, statement_id, KIND)
        if pending.request_id != parse_handle("apr", approval_id):
            raise Refused("STATEMENT_STALE", "The statement is about another approval.")
        if pending.used_at is not None:
            return _again(pending, answer)
        pending.used_at = now = rows.clock(cur)
        request = find(approval_id)
        op = rows.lock(cur, op_id=request.operation_id)
        request = ApprovalRequest.objects.select_for_update(of=("self",)).get(id=request.id)
        if op is None:
            raise not_found()
        try:
            if pending.expires_at <= now:
                raise Refused("STATEMENT_STALE", "The statement is older than five minutes.")
            _end_what_is_over(cur, op, request, user)
            with transaction.atomic():
                result = _decide(cur, op, request, pending, user, answer)
            pending.outcome = result.decision_id
        except (Refused, SignatureRefused) as refusal:
            result = refusal if isinstance(refusal, Refused) else of_signature(refusal)
            pending.outcome = f"refused:{result.extra.get('check', result.code)}"
            _note_refusal(cur, op, request, user, result)
        pending.save(update_fields=["used_at", "outcome"])
    if isinstance(result, Refused):
        raise result
    return result


def _end_what_is_over(cur: Any, op: LockedOperation, request: ApprovalRequest, user: User) -> None:
    """What a sweep or a publication has not written yet is written now, and stays written."""
    if request.status == "pending" and expiry.expire_if_due(cur, op):
        raise Refused("APPROVAL_CLOSED", "It expired: nobody decided in time.")
    if request.status in ("pending", "approved") and op.gate_ref == request.handle:
        if not reconsider.if_changed(cur, op, request, actor=f"user:{user.id}"):
            return
        raise Refused(
            "POLICY_CHANGED",
            "The policy changed while you were deciding, so the call is asked about again.",
            approval_id=op.gate_ref,
            check="policy.changed",
        )


def _decide(
    cur: Any,
    op: LockedOperation,
    request: ApprovalRequest,
    pending: PendingStatement,
    user: User,
    answer: object,
) -> Decided:
    statement = statements.parse(bytes(pending.statement), statements.DECISION)
    predicate = statement["predicate"]
    verdict = predicate["decision"]
    if predicate["request"]["sha256"] != request.sha256:
        raise SignatureRefused("request.mismatch", "the statement is about another request")
    openness.check_is_open(request, op, verdict, rows.clock(cur))
    openness.check_is_current(request, op)
    check_person(user, request, verdict)
    proof = signing.verify(pending, statements.DECISION, answer)
    permissions.check_key(user, proof.key, request.min_custody)
    decision = _record(request, pending, proof, user, predicate)
    signing.remember_use(cur, proof.key)
    status, missing = effects.apply(cur, op, request, decision)
    return Decided(decision.decision_id, verdict, request.handle, status, missing)


def _record(
    request: ApprovalRequest,
    pending: PendingStatement,
    proof: Proof,
    user: User,
    predicate: dict[str, Any],
) -> Decision:
    return Decision.objects.create(
        request=request,
        verdict=predicate["decision"],
        reason=predicate["reason"]["text"],
        **signing.signed_columns(pending, proof, user),
    )


def _again(pending: PendingStatement, answer: object) -> Decided:
    """The double click: the same bytes give the same record, anything else is news."""
    decision = Decision.objects.filter(decision_id=pending.outcome).first()
    if decision is None:
        raise Refused("STATEMENT_STALE", "The statement was tried once and refused.")
    if not signing.is_same_answer(decision.evidence, answer):
        raise Refused("STATEMENT_STALE", "The statement was signed before, by another signature.")
    request = ApprovalRequest.objects.get(id=decision.request_id)
    return Decided(
        decision.decision_id, decision.verdict, request.handle, request.status, "", replayed=True
    )


def _note_refusal(
    cur: Any, op: LockedOperation, request: ApprovalRequest, user: User, refused: Refused
) -> None:
    audit.note(
        cur,
        "approval.signature_refused",
        actor=f"user:{user.id}",
        scope=op.scope,
        data={
            "approval": request.handle,
            "operation": op.handle,
            "code": refused.code,
            "check": refused.extra.get("check"),
        },
    )


def _operation(cur: Any, request: ApprovalRequest) -> LockedOperation:
    op = rows.read(cur, op_id=request.operation_id)
    if op is None:
        raise not_found()
    return op
