"""The last check of a claim: is somebody to be asked, was it approved, and may this approval go?

Everything is read from the operation's row, which every decision writes under the same lock.
"""

from dataclasses import replace
from typing import Any

from approvals import arguments, expiry, grants, policies, requests
from operations import answers, catalogue, leases, permits, states
from operations.actors import Runtime
from operations.attempts import AttemptRow, Tries
from operations.claims import Answer, ClaimRequest, Grant
from operations.errors import DomainError
from operations.ids import uuid7
from operations.ledger import publication
from operations.naming import Intent
from operations.rows import LockedOperation


def pass_or_wait(
    cur: Any, op: LockedOperation, intent: Intent, tries: Tries, runtime: Runtime
) -> Answer | DomainError:
    """Execute a locked PENDING operation that passed every other check, or say what it needs."""
    request = intent.request
    if op.gate == "waiting":
        if not expiry.expire_if_due(cur, op):
            return _wait(cur, op, tries, "await_approval")
        if op.state == states.FAILED:
            return previously_failed(cur, op)
        return _wait(cur, op, tries, "await_reconciliation")
    if op.gate == "granted" and not permits.is_gate_shut(op, tries.now):
        if op.waiting_on == "sealing":
            return _wait(cur, op, tries, "await_approval")
        if _is_delegated(op, request):
            return _wait(cur, op, tries, "delegated")
        named = replace(request, attempt_id=request.attempt_id or str(uuid7()))
        token = grants.spend(cur, op, runtime, named.attempt_id or "")
        if token is not None:
            return _execute(cur, op, intent, named, runtime, token)
        if not publication.is_published(cur, op.id, op.gate_ref or ""):
            return _wait(cur, op, tries, "await_approval")
    # Nobody was asked yet, or what they said does not hold any more.
    args = request.args
    if op.args_fingerprint != intent.args_fingerprint and op.args_fingerprint is not None:
        args = arguments.read(cur, op.id, op.args_fingerprint)
    rule = policies.rule_for(op, args)
    if rule.quorum > 0:
        requests.open_request(cur, op, rule, request, runtime)
        return _wait(cur, op, tries, "await_approval")
    if _is_delegated(op, request):
        # The tool server spends a grant, so there is an approval: one that asks nobody.
        requests.open_unasked(cur, op, rule, request, runtime)
        return _wait(cur, op, tries, "delegated")
    return _execute(cur, op, intent, request, runtime, None)


def token_of(cur: Any, op: LockedOperation, attempt: AttemptRow) -> str | None:
    """The grant that an attempt was given, for a claim that is repeated."""
    if attempt.grant is None:
        return None
    return grants.token_of(cur, attempt.grant, attempt.number)


def previously_failed(cur: Any, op: LockedOperation) -> DomainError:
    """FAILED is final: a new intent needs a new step or call id."""
    operation = answers.document(cur, op)
    return DomainError(
        "OPERATION_PREVIOUSLY_FAILED",
        f"It ended as {op.failure}; a new intent needs a new step or tool call id.",
        failure=op.failure,
        superseded_by=operation["superseded_by"],
        idem_key=op.idem_key,
        operation_url=operation["url"],
    )


def _is_delegated(op: LockedOperation, request: ClaimRequest) -> bool:
    """The tool server that was named executes; the runtime only waits."""
    return op.executor != "self" or request.executor != "self"


def _wait(cur: Any, op: LockedOperation, tries: Tries, decision: str) -> Answer:
    return answers.wait(op, answers.document(cur, op), decision, tries.now)


def _execute(
    cur: Any,
    op: LockedOperation,
    intent: Intent,
    request: ClaimRequest,
    runtime: Runtime,
    token: str | None,
) -> Answer:
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    gate_ref = op.gate_ref if token is not None else None
    granted = leases.grant(cur, op, request, runtime, facts=facts, gate_ref=gate_ref)
    return execute_answer(cur, op, intent, granted, token)


def execute_answer(
    cur: Any, op: LockedOperation, intent: Intent, granted: Grant, token: str | None
) -> Answer:
    """201; with the arguments that were approved, where an approver edited the call."""
    answer = answers.execute(op, answers.document(cur, op), granted, token)
    if op.args_fingerprint != intent.args_fingerprint:
        answer.body["args_raw"] = _args_raw(cur, op)
    return answer


def _args_raw(cur: Any, op: LockedOperation) -> str | None:
    cur.execute(
        "SELECT body FROM operations_payload WHERE operation_id = %s AND kind = 'args'"
        " ORDER BY id LIMIT 1",
        (op.id,),
    )
    row = cur.fetchone()
    return bytes(row[0]).decode() if row and row[0] is not None else None
