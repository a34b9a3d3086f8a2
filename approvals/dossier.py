"""What a person who settles an operation is shown, and the digest that binds them to it."""

import json
from hashlib import sha256
from typing import Any, Final

from approvals import arguments, policies, requests, showing
from approvals.display import Display
from approvals.errors import Refused
from approvals.rules import Rule
from operations import canonical, catalogue
from operations.documents import rfc3339
from operations.rows import LockedOperation

EVIDENCE_TYPE: Final = "urn:countersign:settlement-evidence:v1"
#: Members of a verdict that change with every look and say nothing about what was seen.
_PASSING: Final = frozenset({"next_check_at", "evidence", "sentence"})

_ATTEMPTS: Final = """
SELECT number, standing, outcome, fenced, granted_at, permit_at, emits_until, provider_ref,
       error_type, http_status
  FROM operations_attempt WHERE operation_id = %s ORDER BY number
"""
_REDACTED: Final = """
SELECT data->'redacted' FROM operations_event
 WHERE operation_id = %s AND type = 'operation.recorded' LIMIT 1
"""


def evidence_of(cur: Any, op: LockedOperation) -> dict[str, Any]:
    """What is known: the state, the verdict and every attempt. Ids, words and times; no args."""
    cur.execute(_ATTEMPTS, (op.id,))
    attempts = [
        {
            "number": number,
            "standing": standing,
            "outcome": outcome,
            "fenced": fenced,
            "granted_at": rfc3339(granted_at),
            "permit_at": rfc3339(permit_at),
            "emits_until": rfc3339(emits_until),
            "provider_ref": provider_ref,
            "error_type": error_type,
            "http_status": http_status,
        }
        for (
            number, standing, outcome, fenced, granted_at, permit_at, emits_until, provider_ref,
            error_type, http_status,
        ) in cur.fetchall()
    ]  # fmt: skip
    verdict = op.verdict or {}
    return {
        "type": EVIDENCE_TYPE,
        "operation": op.handle,
        "state": op.state,
        "closed": op.closed,
        "args_fingerprint": op.args_fingerprint,
        "provider_ref": op.provider_ref,
        "verdict": {name: value for name, value in verdict.items() if name not in _PASSING},
        "attempts": attempts,
    }


def evidence_sha256(cur: Any, op: LockedOperation) -> str:
    """The digest that a resolution carries."""
    return sha256(canonical.canonicalize(evidence_of(cur, op))).hexdigest()


def document_of(cur: Any, op: LockedOperation) -> dict[str, Any]:
    """The members that a display needs, as in a request document."""
    return {
        "call": requests.call_of(op),
        "tool_class": op.tool_class,
        "amount": requests.amount_of(cur, op),
        "agent": requests.agent_of(op, ""),
        "scope": {"environment": op.environment},
    }


def show(cur: Any, op: LockedOperation) -> Display:
    """`text/v1` of an operation; one whose arguments were erased may still be settled."""
    document = document_of(cur, op)
    cur.execute(_REDACTED, (op.id,))
    row = cur.fetchone()
    said = row[0] if row else None
    redacted = tuple(json.loads(said) if isinstance(said, str) else said or ())
    try:
        args = arguments.read(cur, op.id, op.args_fingerprint)
    except Refused as refused:
        if refused.code != "ARGS_ERASED":
            raise
        return showing.of_erased(document)
    return showing.of_operation(document, args, redacted)


def rule_of(cur: Any, op: LockedOperation) -> Rule:
    """The rule of the call, for its tier and its custody; erased args leave conditions open."""
    catalogue.current(cur)
    try:
        args = arguments.read(cur, op.id, op.args_fingerprint)
    except Refused:
        args = None
    return policies.rule_for(op, args)


def custody_of(rule: Rule) -> str:
    """Where no approval is needed any enrolled key settles."""
    return rule.min_custody if rule.quorum else "A1"
