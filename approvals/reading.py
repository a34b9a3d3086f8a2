"""The Approval JSON of the HTTP contract, and lists of requests by keyset."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from approvals import effects, keys
from approvals.encodings import b64
from approvals.errors import Refused
from approvals.models import ApprovalRequest, Decision
from approvals.models.requests import STATUSES
from operations import paging, reading
from operations.actors import Scope
from operations.documents import rfc3339
from operations.ids import handle, parse_handle


def read_approval(scope: Scope | None, approval_id: str) -> dict[str, Any] | None:
    """One approval with its signed decisions. `scope` None: a person reads, every scope is theirs.

    None where there is none, or where it belongs to another scope: the same answer.
    """
    wanted = parse_handle("apr", approval_id)
    request = ApprovalRequest.objects.filter(id=wanted).first() if wanted else None
    if request is None or (
        scope is not None and (request.environment, request.namespace) != tuple(scope)
    ):
        return None
    document = _documents([request])[0]
    return _blind(document) if scope is None else document


def list_approvals(
    *, status: str | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """`(documents newest first, next cursor or None)`, for reviewers.

    People see no decisions of a request that still waits: whoever has not decided must not be led
    by who has.
    """
    if status is not None and status not in STATUSES:
        raise Refused(
            "VALIDATION_ERROR", f"A status is one of {', '.join(STATUSES)}.", pointer="?status"
        )
    found = ApprovalRequest.objects.filter(id__lt=paging.read_cursor(cursor)).order_by("-id")
    if status is not None:
        found = found.filter(status=status)
    page = list(found[: limit + 1])
    more = len(page) > limit
    page = page[:limit]
    documents = [_blind(document) for document in _documents(page)]
    return documents, paging.write_cursor(page[-1].id if more and page else None)


def _blind(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "decisions": []} if document["status"] == "pending" else document


def _documents(requests: Sequence[ApprovalRequest]) -> list[dict[str, Any]]:
    ids = list({request.operation_id for request in requests})
    with connection.cursor() as cur:
        operations = {doc["id"]: doc for doc in reading.documents_of(cur, ids)} if ids else {}
        cur.execute(
            "SELECT id, gate_ref, gate_used FROM operations_operation WHERE id = ANY(%s)", (ids,)
        )
        gates = {row[0]: (row[1], row[2]) for row in cur.fetchall()}
    decisions: dict[UUID, list[Decision]] = {request.id: [] for request in requests}
    found = Decision.objects.filter(request__in=list(decisions)).select_related("user", "key")
    for decision in found.order_by("decided_at"):
        decisions[decision.request_id].append(decision)
    return [
        _document(
            request,
            operations[handle("op", request.operation_id)],
            gates[request.operation_id],
            decisions[request.id],
        )
        for request in requests
    ]


def _document(
    request: ApprovalRequest,
    operation: dict[str, Any],
    gate: tuple[str | None, bool],
    decisions: Sequence[Decision],
) -> dict[str, Any]:
    gate_ref, gate_used = gate
    # After a try that sent nothing the approval may be used again: the gate knows, the row does not
    used = request.used_at is not None and (gate_ref != request.handle or gate_used)
    tally = effects.tally_of(request)
    return {
        "id": request.handle,
        "status": request.status,
        "used": used,
        "operation": operation,
        "args_fingerprint": request.args_fingerprint,
        "created_at": rfc3339(request.created_at),
        "expires_at": rfc3339(request.expires_at),
        "decided_at": rfc3339(request.decided_at),
        "requester": request.requester,
        "policy": {
            "id": request.policy_id,
            "version": request.policy_version,
            "sha256": request.policy_sha256,
            "rule": request.rule,
            "tier": request.tier,
            "quorum": request.quorum,
            "min_custody": request.min_custody,
        },
        "request_sha256": request.sha256,
        "approvals": tally.approvals,
        "missing": tally.missing if request.status == "pending" else "",
        "decisions": [decision_document(decision) for decision in decisions],
        "url": f"{settings.BASE_URL}/approvals/{request.handle}/",
    }


def decision_document(decision: Decision) -> dict[str, Any]:
    """One signed decision and everything that stock tools need to check it."""
    return {
        "decision_id": decision.decision_id,
        "verdict": decision.verdict,
        "reviewer": decision.user.email,
        "method": decision.method,
        "custody": decision.custody,
        "counts": decision.counts,
        "reason": decision.reason,
        "decided_at": rfc3339(decision.decided_at),
        "envelope": decision.envelope,
        "message_b64": b64(bytes(decision.message)),
        "sshsig": decision.sshsig or None,
        "allowed_signers": (
            keys.allowed_signers(decision.user.email, decision.key.ssh_public_key)
            if decision.sshsig
            else None
        ),
    }
