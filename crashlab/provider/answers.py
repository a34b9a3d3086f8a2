"""Answers in Stripe's words: outcomes, and the errors that its SDK maps to classes."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What an endpoint answers once its execution began; this is what a key keeps."""

    status: int
    body: dict[str, Any]


@dataclass(eq=False)
class Refused(Exception):
    """Answered before execution began: never kept under a key, so the same key may run later."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def error(
    kind: str,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    members = {"type": kind, "code": code, "message": message, "param": param, **more}
    return {"error": {name: value for name, value in members.items() if value is not None}}


def invalid(message: str, *, code: str | None = None, param: str | None = None) -> Refused:
    return Refused(400, error("invalid_request_error", message, code=code, param=param))


def missing(kind: str, identifier: str, *, param: str = "id", status: int = 404) -> Refused:
    message = f"No such {kind}: '{identifier}'"
    body = error("invalid_request_error", message, code="resource_missing", param=param)
    return Refused(status, body)


def key_in_use() -> Refused:
    return Refused(
        409,
        error(
            "invalid_request_error",
            "There is currently another in-progress request using this Idempotent Key.",
            code="idempotency_key_in_use",
        ),
        {"Stripe-Should-Retry": "true"},
    )


def other_parameters(key: str, same_endpoint: bool) -> Refused:
    where = "parameters" if same_endpoint else "endpoint"
    message = (
        f"Keys for idempotent requests can only be used with the same {where} they were first "
        f"used with. Try using a key other than '{key}' if you meant another request."
    )
    return Refused(400, error("idempotency_error", message))


def before_the_layer(status: int, retry_after: float | None, code: str | None) -> Refused:
    """429, 401, 403 and the like, answered in front of the idempotency layer."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    if status == 429:
        body = error(
            "invalid_request_error", "Request rate limit exceeded.", code=code or "rate_limit"
        )
    elif status == 401:
        body = error("invalid_request_error", "Invalid API Key provided.", code=code)
    elif status == 403:
        body = error(
            "invalid_request_error", "This key may not do that.", code=code or "permission"
        )
    else:
        body = error("api_error", "The service is not available right now.", code=code)
    return Refused(status, body, headers)


def server_error() -> Outcome:
    return Outcome(500, error("api_error", "An unknown error occurred"))
