"""The policy changed while people were deciding, or after they had: ask again, and void nothing
silently.

An open approval whose rule now reads otherwise is superseded and its decisions no longer count; a
new request asks under the new rule. Where the new rule asks nobody, what was asked stays asked.
"""

import json
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from approvals import arguments, policies, requests
from approvals.errors import Refused
from approvals.models import ApprovalRequest
from approvals.requests import Origin
from operations import catalogue, rows, settling, states, transitions
from operations.rows import LockedOperation

_OPEN: Final = """
SELECT r.id, r.operation_id FROM approvals_approvalrequest r
  JOIN operations_operation o ON o.id = r.operation_id
 WHERE r.status IN ('pending', 'approved') AND r.expires_at > clock_timestamp()
   AND o.state IN ('PENDING', 'INVOKED') AND NOT o.closed AND r.id > %s
 ORDER BY r.id LIMIT %s
"""
_FIRST: Final = UUID(int=0)


def origin_of(request: ApprovalRequest) -> Origin:
    """Who asked, as the request's own document says."""
    document = json.loads(bytes(request.document))
    return Origin(
        requester=document["requester"],
        audience=document["scope"]["audience"],
        launched_by=document["launched_by"],
        redacted=tuple(document["redacted"]),
    )


def if_changed(cur: Any, op: LockedOperation, request: ApprovalRequest, *, actor: str) -> bool:
    """Ask again where the rule for this locked call has changed; False where it has not.

    Both rows are locked. For a call that is being sent the approval is revoked instead: whoever
    asks for a permit is refused, and the next claim asks under the new rule. `op.gate_ref` names
    the request that waits now.
    """
    catalogue.current(cur)
    try:
        args = arguments.read(cur, op.id, request.args_fingerprint)
    except Refused:
        return False
    rule = policies.rule_for(op, args)
    if not policies.is_stricter(rule, request.policy_sha256):
        return False
    _void(cur, request)
    data = {"approval": request.handle, "policy": rule.policy_id, "policy_version": rule.version}
    transitions.record_event(cur, op, "approval.policy_changed", actor=actor, data=data)
    if op.state == states.PENDING:
        requests.ask(cur, op, rule, origin_of(request), actor=actor)
    else:
        settling.revoke_gate(cur, op, request.handle, actor=actor)
    return True


def _void(cur: Any, request: ApprovalRequest) -> None:
    cur.execute(
        "UPDATE approvals_decision SET counts = false WHERE request_id = %s AND counts",
        (request.id,),
    )
    cur.execute(
        "UPDATE approvals_grant SET revoked_at = clock_timestamp()"
        " WHERE request_id = %s AND consumed_at IS NULL AND revoked_at IS NULL",
        (request.id,),
    )
    cur.execute(
        "UPDATE approvals_approvalrequest SET status = 'superseded', version = version + 1,"
        " decided_at = clock_timestamp() WHERE id = %s AND status IN ('pending', 'approved')",
        (request.id,),
    )


def all_open(*, actor: str, batch: int = 500) -> int:
    """Look at every open approval after a publication; how many were asked again.

    One transaction each, so that a publication never holds every waiting call.
    """
    asked, after = 0, _FIRST
    while True:
        with connection.cursor() as cur:
            cur.execute(_OPEN, (after, batch))
            found = cur.fetchall()
        if not found:
            return asked
        for request_id, op_id in found:
            asked += _one(op_id, request_id, actor)
        after = found[-1][0]


def _one(op_id: UUID, request_id: UUID, actor: str) -> bool:
    with transaction.atomic(), connection.cursor() as cur:
        op = rows.lock(cur, op_id=op_id)
        request = ApprovalRequest.objects.select_for_update().get(id=request_id)
        if op is None or op.state not in (states.PENDING, states.INVOKED):
            return False
        if request.status not in ("pending", "approved") or op.gate_ref != request.handle:
            return False
        return if_changed(cur, op, request, actor=actor)
