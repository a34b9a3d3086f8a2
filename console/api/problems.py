"""Every refusal as `application/problem+json` (RFC 9457), always with a code and retry advice."""

import json
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from django.conf import settings

from operations.errors import DomainError

JSON_PROBLEM = b"application/problem+json"


class Problem(Exception):
    """An answer that is a refusal. Raised anywhere in the API; the gateway writes it out.

    `retry_after_seconds` without `retryable` is not possible: advice implies that a retry may work.
    """

    def __init__(
        self,
        status: int,
        code: str,
        title: str,
        detail: str = "",
        *,
        retryable: bool = False,
        retry_after_seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail or title
        self.retryable = retryable
        self.retry_after_seconds = retry_after_seconds
        self.headers = dict(headers or {})
        self.extra = extra

    def body(self) -> dict[str, Any]:
        """The problem document; members that say nothing (`None`) are left out of the extras."""
        return {
            "type": f"urn:countersign:problem:{slug(self.code)}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "retryable": self.retryable,
            "retry_after_seconds": self.retry_after_seconds,
            **{name: value for name, value in self.extra.items() if value is not None},
        }

    def encode(self) -> bytes:
        """The problem document as bytes."""
        return json.dumps(self.body(), ensure_ascii=False, separators=(",", ":")).encode()

    def header_list(self) -> list[tuple[bytes, bytes]]:
        """Its headers; `Retry-After` counts whole seconds, so it rounds up."""
        headers = [(b"content-type", JSON_PROBLEM)]
        if self.retry_after_seconds is not None:
            headers.append((b"retry-after", str(math.ceil(self.retry_after_seconds)).encode()))
        headers += [(n.lower().encode(), v.encode()) for n, v in self.headers.items()]
        return headers


def slug(code: str) -> str:
    """`ATTEMPT_IN_FLIGHT` -> `attempt-in-flight`."""
    return code.lower().replace("_", "-")


def of(error: DomainError) -> Problem:
    """The domain's refusal as an answer; with a key, also where people see the operation."""
    extra = dict(error.extra)
    if "idem_key" in extra:
        extra.setdefault("operation_url", f"{settings.BASE_URL}/go/{quote(extra['idem_key'])}")
    return Problem(
        error.status,
        error.code,
        error.title,
        error.detail,
        retryable=error.retryable,
        retry_after_seconds=error.retry_after_seconds,
        **extra,
    )


def malformed(detail: str, pointer: str | None = None) -> Problem:
    """The body is not JSON, or not JSON that two readers would read alike."""
    return Problem(
        400, "MALFORMED_JSON", "The body is not well-formed JSON", detail, pointer=pointer
    )


def invalid_args(detail: str, pointer: str) -> Problem:
    """The args could be read in more than one way, so nothing about them can be promised."""
    return Problem(
        422, "INVALID_ARGS", "The arguments are not unambiguous JSON", detail, pointer=pointer
    )


def invalid(detail: str, pointer: str) -> Problem:
    """A known field whose value is not allowed."""
    return Problem(422, "VALIDATION_ERROR", "A field is not valid", detail, pointer=pointer)


def unknown_field(name: str, pointer: str) -> Problem:
    """A field that this contract does not have; ignoring it could ignore a promise."""
    return Problem(
        422,
        "UNKNOWN_FIELD",
        f"Unknown field: {name}"[:200],
        f"The field {name!r} is not part of this request."[:500],
        pointer=pointer,
        field=name[:200],
    )


def tool_call_id_missing() -> Problem:
    """No call id and no position: the key would not tell two calls of one message apart."""
    return Problem(
        422,
        "TOOL_CALL_ID_MISSING",
        "The tool call has no id",
        "Persist the call before running it, and number the calls of one message (`position`).",
        pointer="/tool_call_id",
    )


def unauthenticated(detail: str) -> Problem:
    """No token, or one that is unknown, expired or revoked; which of these is not said."""
    return Problem(
        401,
        "UNAUTHENTICATED",
        "Not authenticated",
        detail,
        headers={"WWW-Authenticate": 'Bearer realm="countersign"'},
    )


def scope_missing(detail: str) -> Problem:
    """The credential is good, but not for this."""
    return Problem(403, "SCOPE_MISSING", "Not allowed with this credential", detail)


def not_found(detail: str = "There is nothing here for this credential.") -> Problem:
    """It does not exist, or belongs to another namespace or environment: the same answer."""
    return Problem(404, "NOT_FOUND", "Not found", detail)


def method_not_allowed(method: str, allowed: str) -> Problem:
    """The address exists, the method does not."""
    return Problem(
        405,
        "METHOD_NOT_ALLOWED",
        "Method not allowed",
        f"{method} is not answered here; {allowed} is.",
        headers={"Allow": allowed},
    )


def too_large(limit: int) -> Problem:
    """The body, as sent or as unpacked, is beyond the bound."""
    return Problem(
        413, "TOO_LARGE", "The body is too large", f"At most {limit} bytes, unpacked.", limit=limit
    )


def unsupported_media_type(detail: str) -> Problem:
    """The content type or encoding is not one that this address reads."""
    return Problem(415, "UNSUPPORTED_MEDIA_TYPE", "Unsupported media type", detail)


def unavailable(detail: str = "The database cannot be reached; nothing was stored.") -> Problem:
    """Failed before the commit: nothing was stored, and the same request may be sent again."""
    return Problem(
        503, "UNAVAILABLE", "Unavailable for now", detail, retryable=True, retry_after_seconds=1
    )


def outcome_uncertain() -> Problem:
    """The commit was sent and its answer never came: stored or not, nobody knows yet."""
    return Problem(
        503,
        "OUTCOME_UNCERTAIN",
        "It is not known whether this was stored",
        "The database went away during the commit. Repeat the same request (a claim with the same "
        "attempt.id): it is answered by what was stored.",
        retryable=True,
        retry_after_seconds=1,
    )


def internal_error(request_id: str) -> Problem:
    """A defect. Nothing was stored, because the transaction ended with the exception."""
    return Problem(
        500,
        "INTERNAL_ERROR",
        "Internal error",
        "A defect in the server; nothing was stored. The log names this request.",
        request_id=request_id,
    )
