"""Words for approvals and grants."""

from typing import Final

from console.api import shapes
from console.api.described.schemas import ref
from console.api.described.words import PAGES, TEXT, V1, WAIT, Described, Words

_DECIDING: Final = (
    "VALIDATION_ERROR",
    "UNKNOWN_FIELD",
    "APPROVAL_CLOSED",
    "ALREADY_DECIDED",
    "POLICY_CHANGED",
    "ARGS_CHANGED",
    "STATEMENT_STALE",
    "SEPARATION_OF_DUTIES",
    "CUSTODY_TOO_LOW",
    "FORBIDDEN",
    "SIGNATURE_REFUSED",
)

APPROVALS: Final[Described] = {
    ("GET", f"{V1}/approvals"): Words(
        summary="Approvals that wait for people",
        group="Approvals",
        query={"status": (TEXT, "One status; `pending` by default."), **PAGES},
        answers={200: ("One page.", ref("ApprovalPage"), None)},
        problems=("VALIDATION_ERROR", "UNKNOWN_FIELD"),
    ),
    ("GET", f"{V1}/approvals/{{id}}"): Words(
        summary="Read an approval, or wait until it changes",
        group="Approvals",
        query=WAIT,
        answers={200: ("The approval with its signed decisions.", ref("Approval"), None)},
        problems=("VALIDATION_ERROR",),
    ),
    ("POST", f"{V1}/approvals/{{id}}/statement"): Words(
        summary="The exact bytes to sign",
        group="Approvals",
        says="Sign `message_b64` with `ssh-keygen -Y sign -n decision.v1@countersign`.",
        body=shapes.STATEMENT.schema(),
        body_example={"verdict": "approve", "reason": "invoice 77 is right"},
        answers={200: ("Bytes that wait for a signature.", ref("Statement"), None)},
        problems=_DECIDING,
    ),
    ("POST", f"{V1}/approvals/{{id}}/decisions"): Words(
        summary="Hand in a signature",
        group="Approvals",
        body=shapes.DECISION.schema(),
        answers={200: ("The decision is stored.", ref("Decided"), None)},
        problems=_DECIDING,
    ),
    ("POST", f"{V1}/approvals/{{id}}/grant"): Words(
        summary="Mint a single-use grant, for tool servers",
        group="Grants",
        says="The same `claim_id` gets the same grant.",
        body=shapes.GRANT.schema(),
        body_example={"claim_id": "01J9ZD3M4T"},
        answers={200: ("The grant.", ref("Grant"), None)},
        problems=("VALIDATION_ERROR", "UNKNOWN_FIELD", "NOT_APPROVED", "FORBIDDEN"),
    ),
    ("POST", f"{V1}/grants/{{jti}}/consume"): Words(
        summary="Spend a grant, once",
        group="Grants",
        body=shapes.CONSUME.schema(),
        body_example={"claim_id": "01J9ZD3M4T", "args_fingerprint": "jcs-sha256:…"},
        answers={200: ("The receipt; it carries what a 201 claim does.", ref("Receipt"), None)},
        problems=(
            "VALIDATION_ERROR",
            "UNKNOWN_FIELD",
            "ALREADY_CONSUMED",
            "GRANT_EXPIRED",
            "GRANT_REVOKED",
            "FINGERPRINT_MISMATCH",
        ),
    ),
    ("GET", "/.well-known/jwks.json"): Words(
        summary="Public keys that verify grants",
        group="Grants",
        answers={200: ("A JSON Web Key Set.", ref("Keys"), None)},
    ),
}
