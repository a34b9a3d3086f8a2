"""People settle UNKNOWN operations, each by a signed statement over the evidence they were shown.

Same ceremony as a decision: `start` builds the bytes, `finish` takes one answer and applies it in
one transaction. Where one person is not enough, the first resolution waits, unseen, for the same
choice of somebody else over the same evidence.
"""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from django.db import connection, transaction

from approvals import (
    attachments,
    audit,
    decisions,
    dossier,
    ledger,
    permissions,
    resolution_rows,
    settlement,
    signing,
    statements,
)
from approvals.attachments import Undoing
from approvals.encodings import b64url
from approvals.errors import Refused, not_found, of_signature
from approvals.models import PendingStatement, Resolution, ReviewerKey, User
from approvals.refusals import SignatureRefused
from approvals.settlement import Situation
from approvals.signing import Ceremony
from operations import (
    attempts,
    catalogue,
    compensations,
    endings,
    rows,
    settling,
)
from operations.ids import parse_handle
from operations.rows import LockedOperation

KIND: Final = "resolution"


@dataclass(frozen=True)
class Resolved:
    """What a resolution came to. Not `applied`: it waits for a second person."""

    decision_id: str
    choice: str
    operation_id: str
    state: str
    applied: bool
    replayed: bool = False


def situation_of(cur: Any, op: LockedOperation) -> Situation:
    """The operation as the rules of settling see it, by the database's clock."""
    tries = attempts.load(cur, op)
    facts = catalogue.facts(cur, op.tool)
    return Situation(
        op,
        facts,
        attempts.t_emit(tries),
        tries.now,
        settling.request_lifetime(op, facts),
        endings.has_live_compensation(cur, op.id),
    )


def why_not(user: User, operation_id: str, choice: str) -> str | None:
    """The sentence a page shows in place of a choice; None where the person may go on.

    What the form still asks for (an object, a reason) is not a reason against.
    """
    with connection.cursor() as cur:
        op = _find(cur, operation_id)
        try:
            permissions.check_may_settle(user, dossier.rule_of(cur, op).tier)
            settlement.check_choice(situation_of(cur, op), choice, "given", "given")
            resolution_rows.check_has_not_signed(op, user, choice, dossier.evidence_sha256(cur, op))
        except Refused as refused:
            return refused.detail
    return None


def start(
    user: User,
    session: str,
    operation_id: str,
    choice: str,
    *,
    key: ReviewerKey,
    provider_ref: str | None = None,
    reason: str = "",
    reason_code: str = "",
    opened: Collection[str] = (),
    fetched: Mapping[str, Any] | None = None,
    compensation: Undoing | None = None,
) -> Ceremony:
    """Build the statement of this choice; raises Refused with what stands in the way.

    `fetched` is what the provider showed under `provider_ref` a moment ago, or why it could not be
    asked; its digest is signed. `compensation` is the call that is to undo this one.
    """
    ledger.check()
    reason = signing.check_reason(reason)
    provider_ref = (provider_ref or "").strip() or None
    attachment, digests = attachments.attach(choice, fetched, compensation)
    with transaction.atomic(), connection.cursor() as cur:
        op = _find(cur, operation_id)
        rule = dossier.rule_of(cur, op)
        permissions.check_may_settle(user, rule.tier)
        situation = situation_of(cur, op)
        settlement.check_choice(situation, choice, provider_ref, reason)
        settlement.check_fetched(fetched, reason)
        digest = dossier.evidence_sha256(cur, op)
        resolution_rows.check_has_not_signed(op, user, choice, digest)
        permissions.check_key(user, key, dossier.custody_of(rule))
        shown, document = dossier.show(cur, op), dossier.document_of(cur, op)
        predicate = {
            "decision": choice,
            "operation": {"id": op.handle, "version": op.version, "state": op.state},
            "call": document["call"],
            "agent": document["agent"],
            "scope": {"environment": op.environment, "audience": ""},
            "evidence": {
                "sha256": digest,
                "verdict": situation.kind or None,
                "object_sha256": digests.get("object"),
            },
            "compensation": {
                "tool": compensation.tool if compensation else None,
                "args_sha256": digests.get("args"),
            },
            "provider_ref": provider_ref,
            "nonce": b64url(secrets.token_bytes(32)),
            "reviewer": signing.reviewer_of(user, key),
            "validity": {
                "decided_at": statements.instant(situation.now),
                "expires_at": statements.instant(situation.now + signing.VALID_FOR),
            },
            "reason": {"code": reason_code, "text": reason},
            "display": signing.display_member(shown, decisions.coverage_of(shown, opened)),
            "log": ledger.seen(cur),
        }
        fingerprint = statements.hex_of(op.args_fingerprint or "") or sha256(b"").hexdigest()
        raw = statements.build(statements.RESOLUTION, op.idem_key, fingerprint, predicate)
        pending = PendingStatement(
            user=user,
            session=session,
            kind=KIND,
            operation_id=op.id,
            operation_version=op.version,
            attachment=attachment,
        )
        return signing.open_ceremony(pending, key, raw, shown, situation.now)


def finish(user: User, session: str, statement_id: str, answer: object) -> Resolved:
    """Take the one answer to a pending statement; the same answer again gives the same record."""
    result: Resolved | Refused
    with transaction.atomic(), connection.cursor() as cur:
        pending = signing.take(user, session, statement_id, KIND)
        if pending.used_at is not None:
            return _again(pending, answer)
        pending.used_at = now = rows.clock(cur)
        op = rows.lock(cur, op_id=pending.operation_id)
        if op is None:
            raise not_found()
        try:
            if pending.expires_at <= now:
                raise Refused("STATEMENT_STALE", "The statement is older than five minutes.")
            with transaction.atomic():
                result = _resolve(cur, op, pending, user, answer)
            pending.outcome = result.decision_id
        except (Refused, SignatureRefused) as refusal:
            result = refusal if isinstance(refusal, Refused) else of_signature(refusal)
            pending.outcome = f"refused:{result.extra.get('check', result.code)}"
            data = {"operation": op.handle, "code": result.code, "check": result.extra.get("check")}
            audit.note(
                cur, "resolution.refused", actor=f"user:{user.id}", scope=op.scope, data=data
            )
        pending.save(update_fields=["used_at", "outcome"])
    if isinstance(result, Refused):
        raise result
    return result


def _resolve(
    cur: Any, op: LockedOperation, pending: PendingStatement, user: User, answer: object
) -> Resolved:
    predicate = statements.parse(bytes(pending.statement), statements.RESOLUTION)["predicate"]
    choice, provider_ref = predicate["decision"], predicate["provider_ref"]
    digest = dossier.evidence_sha256(cur, op)
    if predicate["operation"]["id"] != op.handle or predicate["evidence"]["sha256"] != digest:
        raise Refused(
            "STATEMENT_STALE",
            f"What is known has changed while you were deciding: it is {op.state} now. Look again.",
            check="evidence.changed",
        )
    rule = dossier.rule_of(cur, op)
    permissions.check_may_settle(user, rule.tier)
    situation = situation_of(cur, op)
    settlement.check_choice(situation, choice, provider_ref, predicate["reason"]["text"])
    resolution_rows.check_has_not_signed(op, user, choice, digest)
    proof = signing.verify(pending, statements.RESOLUTION, answer)
    permissions.check_key(user, proof.key, dossier.custody_of(rule))
    earlier = resolution_rows.waiting_for_second(op, choice, digest, user, proof)
    applied = earlier is not None or not settlement.needs_second(situation, choice)
    resolution = resolution_rows.record(op, pending, proof, user, predicate, applied=applied)
    signing.remember_use(cur, proof.key)
    resolution_rows.note(cur, op, resolution, actor=f"user:{user.id}")
    state = op.state
    if applied:
        if earlier is not None:
            Resolution.objects.filter(decision_id=earlier.decision_id).update(applied=True)
        state = _carry_out(cur, op, resolution, earlier, attachments.undoing_of(pending))
    return Resolved(resolution.decision_id, choice, op.handle, state, applied)


def _carry_out(
    cur: Any,
    op: LockedOperation,
    resolution: Resolution,
    earlier: Resolution | None,
    undoing: Undoing | None,
) -> str:
    """Apply it; returns the operation's state afterwards."""
    actor = f"user:{resolution.user_id}"
    signed = [one.decision_id for one in (earlier, resolution) if one is not None]
    evidence = {"signed": signed, "evidence_sha256": resolution.evidence_sha256}
    if resolution.choice == "settle-committed":
        ref = resolution.provider_ref
        done = settling.settle_committed(
            cur, op.id, actor=actor, provider_ref=ref, evidence=evidence
        )
    elif resolution.choice == "settle-absent":
        done = settling.settle_absent(
            cur, op.id, actor=actor, evidence=evidence, failure="settled_absent"
        )
    elif undoing is not None:
        compensations.open_for(cur, op, tool=undoing.tool, args_raw=undoing.args_raw, actor=actor)
        return op.state
    else:
        done = settling.release(cur, op.id, reason="signed", actor=actor, evidence=evidence)
    return done.state


def _again(pending: PendingStatement, answer: object) -> Resolved:
    resolution = Resolution.objects.filter(decision_id=pending.outcome).first()
    if resolution is None:
        raise Refused("STATEMENT_STALE", "The statement was tried once and refused.")
    if not signing.is_same_answer(resolution.evidence, answer):
        raise Refused("STATEMENT_STALE", "The statement was signed before, by another signature.")
    operation = resolution.operation
    return Resolved(
        resolution.decision_id,
        resolution.choice,
        operation.handle,
        operation.state,
        resolution.applied,
        replayed=True,
    )


def _find(cur: Any, operation_id: str) -> LockedOperation:
    op_id = parse_handle("op", operation_id)
    op = rows.read(cur, op_id=op_id) if op_id else None
    if op is None:
        raise Refused("NOT_FOUND", "There is no such operation.")
    return op
