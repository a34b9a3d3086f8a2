"""Answers about approvals and grants: what people sign, and what it permits."""

from typing import Final

from approvals.models.requests import STATUSES
from console.api.described.schemas import (
    ANY,
    MAYBE_TEXT,
    TEXT,
    TIME,
    WHOLE,
    YES_NO,
    Schema,
    page,
    ref,
    thing,
)

APPROVAL: Final = thing(
    {
        "id": TEXT,
        "status": {
            "type": "string",
            "enum": list(STATUSES),
        },
        "used": YES_NO,
        "version": {"type": "integer", "description": "That of its operation; for `since`."},
        "operation": ref("Operation"),
        "args_fingerprint": TEXT,
        "expires_at": TIME,
        "decisions": {
            "type": "array",
            "items": thing(
                {
                    "decision_id": TEXT,
                    "verdict": {"type": "string", "enum": ["approve", "deny"]},
                    "reviewer": TEXT,
                    "method": TEXT,
                    "custody": TEXT,
                    "envelope": {"type": "object", "description": "DSSE, JSON form."},
                    "message_b64": TEXT,
                    "sshsig": MAYBE_TEXT,
                    "allowed_signers": MAYBE_TEXT,
                }
            ),
        },
    }
)

APPROVAL_SCHEMAS: Final[dict[str, Schema]] = {
    "Approval": APPROVAL,
    "ApprovalPage": page("Approval"),
    "Statement": thing(
        {
            "statement_id": TEXT,
            "message_b64": TEXT,
            "statement": ANY,
            "display": {"type": "string", "description": "What the statement shows: text/v1."},
            "key_id": TEXT,
            "expires_at": TIME,
        },
        needs=["statement_id", "message_b64", "statement", "expires_at"],
    ),
    "Decided": thing(
        {"decision_id": TEXT, "verdict": TEXT, "approval": {"type": "object"}, "replayed": YES_NO}
    ),
    "Grant": thing(
        {
            "jti": TEXT,
            "grant": {"type": "string", "description": "JWS, EdDSA, `exec-grant+jwt`."},
            "claim_id": TEXT,
            "args_fingerprint": TEXT,
            "approval": TEXT,
            "expires_at": TIME,
        }
    ),
    "Receipt": thing(
        {
            "decision": {"type": "string", "enum": ["execute"]},
            "operation": ref("Operation"),
            "idem_key": TEXT,
            "args_fingerprint": TEXT,
            "attempt_number": WHOLE,
            "attempt_id": TEXT,
            "lease_expires_at": TIME,
            "jti": TEXT,
            "claim_id": TEXT,
            "consumed_at": TIME,
            "replayed": YES_NO,
        }
    ),
}
