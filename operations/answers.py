"""What services answer about a locked operation: its document, and the bodies of a claim."""

import math
from datetime import datetime
from typing import Any, Final

from operations import reading
from operations.claims import Answer, Grant
from operations.documents import approval_of, rfc3339
from operations.rows import LockedOperation

instant = rfc3339

EMPTY: Final[dict[str, Any]] = dict.fromkeys(
    (
        "attempt_number", "attempt_id", "lease_expires_at", "send_within_ms", "first_sent_at",
        "grant", "result", "provider_ref", "approval", "verdict", "next_check_at",
        "retry_after_seconds",
    )
)  # fmt: skip
#: How soon to ask again where nothing says when: long enough to be cheap, short for a person.
ASK_AGAIN_SECONDS: Final = 5
_LONGEST_PAUSE_SECONDS: Final = 60


def document(cur: Any, op: LockedOperation) -> dict[str, Any]:
    """The Operation of the contract, as it stands in this transaction."""
    return reading.documents_of(cur, [op.id])[0]


def execute(
    op: LockedOperation, operation: dict[str, Any], granted: Grant, token: str | None = None
) -> Answer:
    """201: the caller holds the lease, and with a permit may send. `token` is the signed grant."""
    body = _body(op, operation) | {
        "decision": "execute",
        "attempt_number": granted.attempt_number,
        "attempt_id": granted.attempt_id,
        "lease_expires_at": instant(granted.lease_expires_at),
        "send_within_ms": granted.permit.within_ms if granted.permit else None,
        "first_sent_at": instant(granted.first_sent_at),
        "grant": token,
    }
    return Answer(201, body)


def replay(op: LockedOperation, operation: dict[str, Any]) -> Answer:
    """200: it has happened; the recorded result, counted as replayed."""
    body = _body(op, operation) | {
        "decision": "replay",
        "result": operation["result"],
        "provider_ref": op.provider_ref,
    }
    return Answer(200, body, {"Idempotent-Replayed": "true"})


def wait(op: LockedOperation, operation: dict[str, Any], decision: str, now: datetime) -> Answer:
    """202: `await_approval`, `delegated` or `await_reconciliation`, and when to ask again."""
    next_check_at = (op.verdict or {}).get("next_check_at") or instant(
        op.waiting_until if decision == "await_reconciliation" else None
    )
    pause = retry_after(next_check_at, now)
    body = _body(op, operation) | {
        "decision": decision,
        "verdict": operation["verdict"] if decision == "await_reconciliation" else None,
        "next_check_at": next_check_at if decision == "await_reconciliation" else None,
        "retry_after_seconds": pause,
    }
    return Answer(202, body, {"Retry-After": str(pause)})


def retry_after(at: datetime | str | None, now: datetime) -> int:
    """Whole seconds until then: at least one, and never so long that news goes unheard."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    if at is None:
        return ASK_AGAIN_SECONDS
    return max(1, min(_LONGEST_PAUSE_SECONDS, math.ceil((at - now).total_seconds())))


def _body(op: LockedOperation, operation: dict[str, Any]) -> dict[str, Any]:
    return {
        "operation": operation,
        "idem_key": op.idem_key,
        "args_fingerprint": op.args_fingerprint,
        **EMPTY,
        "approval": approval_of(op),
    }
