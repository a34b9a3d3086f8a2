"""Single-use permission to execute exactly one fingerprint, given after approval.

A plain claim mints and spends its grant in its own transaction (`spend`). A tool server asks for
one (`mint`) and spends it online (`consume`): one conditional UPDATE decides who was first, in the
transaction that moves the operation to INVOKED. Rows are tombstones and are never purged.
Nothing is granted before its decisions are in a published checkpoint, nor while the ledger does
not fit. Lock order: operation, request, grant, epoch.
"""

import json
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction

from approvals import epochs, jws, ledger, signing_keys, standing, statements
from approvals.errors import Refused, not_found
from approvals.models import ApprovalRequest, Grant
from operations import answers, granting, incidents, rows
from operations.actors import Runtime
from operations.claims import ClaimRequest
from operations.ids import handle, parse_handle, uuid7
from operations.rows import LockedOperation

VALID_FOR: Final = timedelta(minutes=5)

_CONSUME: Final = """
UPDATE approvals_grant
   SET consumed_at = clock_timestamp(), consumed_claim_id = %s, attempt_number = %s
 WHERE jti = %s AND consumed_at IS NULL AND revoked_at IS NULL
   AND expires_at > clock_timestamp() AND epoch = %s
RETURNING consumed_at
"""
_KILL: Final = """
UPDATE approvals_grant SET revoked_at = clock_timestamp()
 WHERE request_id = %s AND consumed_at IS NULL AND revoked_at IS NULL
"""


def spend(cur: Any, op: LockedOperation, runtime: Runtime, claim_id: str) -> str | None:
    """Mint and consume the grant of a plain claim on a locked, PENDING, approved operation.

    Returns the token, which the caller hands to the runtime as proof. None: the approval no
    longer holds (its time is over, a key was compromised, a reviewer left); the caller asks anew.
    """
    ledger.check()
    request = _locked_request(op.gate_ref)
    now = rows.clock(cur)
    if request is None or standing.why_it_does_not_hold(cur, op, request, now) is not None:
        return None
    cur.execute(_KILL, (request.id,))
    grant = _issue(cur, op, request, runtime, claim_id, now)
    if _consume(cur, grant, claim_id, op.attempt_number + 1) is None:
        return None
    _mark_used(cur, request, claim_id, op.attempt_number + 1)
    return grant.token


def token_of(cur: Any, approval_id: str | None, attempt_number: int) -> str | None:
    """The token that an attempt was granted with, for a claim that is repeated."""
    wanted = parse_handle("apr", approval_id or "")
    cur.execute(
        "SELECT token FROM approvals_grant WHERE request_id = %s AND attempt_number = %s",
        (wanted, attempt_number),
    )
    row = cur.fetchone()
    return row[0] if row else None


def mint(runtime: Runtime, approval_id: str, claim_id: str) -> dict[str, Any]:
    """A grant for a tool server; the same claim id gets the same grant for as long as it lives."""
    ledger.check()
    with transaction.atomic(), connection.cursor() as cur:
        op, request = _locked(cur, runtime, approval_id)
        now = rows.clock(cur)
        mine = Grant.objects.filter(request=request, claim_id=claim_id, runtime=runtime.key_id)
        earlier = mine.filter(revoked_at=None).order_by("-issued_at").first()
        if earlier is not None and (earlier.consumed_at is not None or earlier.expires_at > now):
            return _told(earlier)
        problem = standing.why_it_does_not_hold(cur, op, request, now)
        if problem is not None:
            raise problem
        cur.execute(_KILL, (request.id,))
        return _told(_issue(cur, op, request, runtime, claim_id, now))


def consume(runtime: Runtime, jti: str, claim_id: str, args_fingerprint: str) -> dict[str, Any]:
    """Spend a grant: PENDING -> INVOKED and a lease, once. The same claim id, the same receipt."""
    ledger.check()
    refusal: Refused | None = None
    with transaction.atomic(), connection.cursor() as cur:
        found = Grant.objects.select_related("request").filter(jti=jti).first()
        if found is None or not _is_in_scope(found.request, runtime):
            raise Refused("NOT_FOUND", "There is no such grant.")
        op = rows.lock(cur, op_id=found.request.operation_id)
        request = ApprovalRequest.objects.select_for_update(of=("self",)).get(id=found.request_id)
        grant = Grant.objects.select_for_update(of=("self",)).get(jti=jti)
        if op is None:
            raise not_found()
        if grant.runtime != runtime.key_id:
            raise Refused("FORBIDDEN", "The grant was issued to another runtime.", check="audience")
        if grant.consumed_at is not None:
            return _receipt_again(grant, claim_id)
        refusal = _refusal(cur, op, request, grant, runtime, args_fingerprint)
        if refusal is None:
            return _spend_online(cur, op, request, grant, runtime, claim_id)
    # Raised after the commit: the incident that goes with it stays.
    raise refusal


def _issue(
    cur: Any,
    op: LockedOperation,
    request: ApprovalRequest,
    runtime: Runtime,
    claim_id: str,
    now: datetime,
) -> Grant:
    epoch = epochs.current(cur)
    jti = handle("grt", uuid7())
    expires_at = min(now + VALID_FOR, request.expires_at)
    args_sha256 = statements.hex_of(request.args_fingerprint)
    issued = int(now.timestamp())
    claims = {
        "iss": settings.BASE_URL,
        "sub": op.idem_key,
        "aud": str(runtime.key_id),
        "jti": jti,
        "iat": issued,
        "nbf": issued,
        "exp": int(expires_at.timestamp()),
        "approval": request.handle,
        "claim_id": claim_id,
        "environment": op.environment,
        "namespace": op.namespace,
        "tool": op.tool,
        "args_sha256": args_sha256,
        "decisions": [decision.decision_id for decision in standing.decisions_of(request)],
        "policy_sha256": request.policy_sha256,
        "epoch": epoch,
    }
    signer = signing_keys.grant_signer()
    return Grant.objects.create(
        jti=jti,
        request=request,
        claim_id=claim_id,
        runtime=runtime.key_id,
        args_sha256=args_sha256,
        epoch=epoch,
        token=jws.sign(claims, signer.key_id, signer.sign),
        issued_at=now,
        expires_at=expires_at,
    )


def _consume(cur: Any, grant: Grant, claim_id: str, attempt_number: int) -> datetime | None:
    cur.execute(_CONSUME, (claim_id, attempt_number, grant.jti, epochs.current(cur)))
    row = cur.fetchone()
    return row[0] if row else None


def _mark_used(cur: Any, request: ApprovalRequest, claim_id: str, attempt_number: int) -> None:
    cur.execute(
        "UPDATE approvals_approvalrequest SET used_at = clock_timestamp(), claim_id = %s,"
        " attempt_number = %s, version = version + 1 WHERE id = %s",
        (claim_id, attempt_number, request.id),
    )


def _refusal(
    cur: Any,
    op: LockedOperation,
    request: ApprovalRequest,
    grant: Grant,
    runtime: Runtime,
    args_fingerprint: str,
) -> Refused | None:
    now = rows.clock(cur)
    if args_fingerprint != request.args_fingerprint:
        incidents.open_incident(
            cur,
            "args_conflict",
            op=op,
            cause=f"{op.id}:grant:{args_fingerprint}",
            actor=runtime.actor,
            details={"problem": "FINGERPRINT_MISMATCH", "grant": grant.jti},
        )
        return Refused("FINGERPRINT_MISMATCH", "The arguments are not the approved ones.")
    if grant.revoked_at is not None:
        return Refused("GRANT_REVOKED", "The grant was revoked.")
    if grant.expires_at <= now:
        return Refused("GRANT_EXPIRED", "The grant is over.")
    problem = standing.why_it_does_not_hold(cur, op, request, now)
    if problem is not None and problem.status not in (410, 412):
        return Refused("GRANT_REVOKED", problem.detail)
    return problem


def _spend_online(
    cur: Any,
    op: LockedOperation,
    request: ApprovalRequest,
    grant: Grant,
    runtime: Runtime,
    claim_id: str,
) -> dict[str, Any]:
    number = op.attempt_number + 1
    consumed_at = _consume(cur, grant, claim_id, number)
    if consumed_at is None:
        raise Refused("GRANT_REVOKED", "The grant is of an earlier epoch.")
    granted = granting.grant(cur, op, _claim_of(op, claim_id), runtime, gate_ref=request.handle)
    _mark_used(cur, request, claim_id, number)
    body = answers.execute(op, answers.document(cur, op), granted, grant.token).body
    receipt = {**body, "jti": grant.jti, "claim_id": claim_id,
               "consumed_at": answers.instant(consumed_at), "replayed": False}  # fmt: skip
    cur.execute(
        "UPDATE approvals_grant SET receipt = %s::jsonb WHERE jti = %s",
        (json.dumps(receipt), grant.jti),
    )
    return receipt


def _claim_of(op: LockedOperation, claim_id: str) -> ClaimRequest:
    """The claim that a consumption stands for: fenced, so it sends nothing without a permit."""
    return ClaimRequest(
        run_id=op.run_id,
        agent=op.agent,
        step=op.step,
        tool=op.tool,
        args=None,
        args_raw=b"",
        tool_call_id=op.tool_call_id,
        position=op.position,
        attempt_id=claim_id,
        layer="tool_server",
        fenced=True,
    )


def _receipt_again(grant: Grant, claim_id: str) -> dict[str, Any]:
    if grant.consumed_claim_id != claim_id or grant.receipt is None:
        raise Refused("ALREADY_CONSUMED", "Another claim has consumed this grant.")
    return {**grant.receipt, "replayed": True}


def _told(grant: Grant) -> dict[str, Any]:
    return {
        "grant": grant.token,
        "jti": grant.jti,
        "claim_id": grant.claim_id,
        "expires_at": answers.instant(grant.expires_at),
        "args_fingerprint": f"jcs-sha256:{grant.args_sha256}",
        "approval": grant.request.handle,
    }


def _locked(
    cur: Any, runtime: Runtime, approval_id: str
) -> tuple[LockedOperation, ApprovalRequest]:
    wanted = parse_handle("apr", approval_id)
    request = ApprovalRequest.objects.filter(id=wanted).first() if wanted else None
    if request is None or not _is_in_scope(request, runtime):
        raise not_found()
    op = rows.lock(cur, op_id=request.operation_id)
    if op is None:
        raise not_found()
    return op, ApprovalRequest.objects.select_for_update(of=("self",)).get(id=request.id)


def _locked_request(gate_ref: str | None) -> ApprovalRequest | None:
    wanted = parse_handle("apr", gate_ref or "")
    if wanted is None:
        return None
    return ApprovalRequest.objects.select_for_update(of=("self",)).filter(id=wanted).first()


def _is_in_scope(request: ApprovalRequest, runtime: Runtime) -> bool:
    return (request.environment, request.namespace) == tuple(runtime.scope)
