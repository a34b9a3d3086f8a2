"""Every code that an answer may carry, with its statuses."""

from typing import Final

from approvals.errors import KINDS as APPROVAL_KINDS
from operations.errors import KINDS as OPERATION_KINDS

#: What the gateway itself answers.
OWN: Final[dict[str, int]] = {
    "MALFORMED_JSON": 400,
    "INVALID_SIGNATURE": 400,
    "UNAUTHENTICATED": 401,
    "SCOPE_MISSING": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "UNKNOWN_FIELD": 422,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
    "UNAVAILABLE": 503,
    "OUTCOME_UNCERTAIN": 503,
}


def _statuses() -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {code: [status] for code, status in OWN.items()}
    for code, kind in OPERATION_KINDS.items():
        found.setdefault(code, []).append(kind.status)
    for code, (status, _) in APPROVAL_KINDS.items():
        found.setdefault(code, []).append(status)
    return {code: tuple(dict.fromkeys(statuses)) for code, statuses in found.items()}


STATUS_OF: Final = _statuses()
