"""What an exception out of an effect proves: not sent, refused, or nothing at all.

Only exceptions that say it themselves are believed: one wrapped in another proves nothing, and what
is not known here is unknown. Libraries are recognised by name, so that none needs to be installed.
Retries inside an effect hide their first failures; leave them to the guard.
"""

import socket
import urllib.error
from dataclasses import dataclass
from typing import Any

from countersign.errors import Declined, NotSent, PermitLapsed

#: Requests that answer one of these may have been executed, now or by an earlier request.
_NO_PROOF = frozenset({408, 409, 425, 499})
#: Refusals that a person can lift: worth trying again with the same key.
_LIFTABLE = frozenset({401, 403, 407, 423, 429})
_NOT_SENT = {
    "httpx": {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"},
    "requests": {"ConnectTimeout", "MissingSchema", "InvalidSchema", "InvalidURL"},
    "aiohttp": {"ClientConnectorError", "InvalidURL"},
    "urllib3": {"NewConnectionError", "NameResolutionError", "ConnectTimeoutError"},
    "botocore": {"EndpointConnectionError", "ConnectTimeoutError", "NoCredentialsError"},
}
_LOST = {
    "httpx": {"TransportError"},
    "requests": {"ConnectionError", "Timeout", "ChunkedEncodingError"},
    "aiohttp": {"ClientError"},
    "urllib3": {"HTTPError"},
    "botocore": {"HTTPClientError"},
    "stripe": {"APIConnectionError", "APIError"},
}


@dataclass(frozen=True)
class Conclusion:
    """`outcome` is failed (no effect) or unknown. `lost` marks an answer that got lost on its way,
    which is worth waiting for; anything else that is unknown is the caller's own exception."""

    outcome: str
    type: str
    message: str
    permanent: bool = False
    http_status: int | None = None
    replayed: bool = False
    lost: bool = False


def conclude(error: BaseException) -> Conclusion:
    """What `error` proves about the effect it came out of."""
    kind, message = _kind(error), str(error)[:500]
    if isinstance(error, Declined):
        return Conclusion("failed", kind, message, True, error.http_status, error.replayed)
    if isinstance(error, NotSent):
        # A lapsed permit says so in its type, for whoever reads the attempt later.
        name = "permit_lapsed" if isinstance(error, PermitLapsed) else "not_sent"
        return Conclusion("failed", name, message, False, error.http_status)
    if _never_left(error):
        return Conclusion("failed", kind, message)
    status, headers = _status(error)
    if status is not None:
        return _by_status(error, kind, message, status, headers)
    lost = isinstance(error, TimeoutError | ConnectionError) or _is(error, _LOST)
    lost = lost or isinstance(error, urllib.error.URLError)
    return Conclusion("unknown", kind, message, lost=lost)


def _by_status(
    error: BaseException, kind: str, message: str, status: int, headers: Any
) -> Conclusion:
    replayed = _header(headers, "Idempotent-Replayed") == "true"
    mismatch = _is(error, {"stripe": {"IdempotencyError"}})
    locked = kind == "lock_timeout"
    if not 400 <= status < 500 or status in _NO_PROOF or mismatch or locked:
        return Conclusion("unknown", kind, message, False, status, replayed, lost=True)
    # AWS answers 400 for throttling, too.
    permanent = status not in _LIFTABLE and not _is(error, {"botocore": {"ClientError"}})
    return Conclusion("failed", kind, message, permanent, status, replayed)


def _never_left(error: BaseException) -> bool:
    if isinstance(error, ConnectionRefusedError | socket.gaierror):
        return True
    if isinstance(error, urllib.error.HTTPError):
        return False
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, ConnectionRefusedError | socket.gaierror)
    if _is(error, _NOT_SENT):
        return True
    if _is(error, {"stripe": {"APIConnectionError"}}):
        return error.__cause__ is not None and _never_left(error.__cause__)
    if _is(error, {"requests": {"ConnectionError"}}) and error.args:
        reason = getattr(error.args[0], "reason", None)
        return isinstance(reason, Exception) and _is(reason, {"urllib3": _NOT_SENT["urllib3"]})
    return False


def _status(error: BaseException) -> tuple[int | None, Any]:
    """The HTTP status that a library's exception carries, and the answer's headers."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code, error.headers
    if _is(error, {"stripe": {"StripeError"}}):
        return getattr(error, "http_status", None), getattr(error, "headers", None)
    if _is(error, {"httpx": {"HTTPStatusError"}, "requests": {"HTTPError"}}):
        response = getattr(error, "response", None)
        return getattr(response, "status_code", None), getattr(response, "headers", None)
    if _is(error, {"aiohttp": {"ClientResponseError"}}):
        return getattr(error, "status", None), getattr(error, "headers", None)
    if _is(error, {"botocore": {"ClientError"}}):
        answer = getattr(error, "response", {}).get("ResponseMetadata", {})
        return answer.get("HTTPStatusCode"), answer.get("HTTPHeaders")
    return None, None


def _is(error: BaseException, names: dict[str, set[str]]) -> bool:
    return any(
        base.__name__ in names.get(base.__module__.partition(".")[0], ())
        for base in type(error).__mro__
    )


def _header(headers: Any, name: str) -> str | None:
    try:
        items = list(headers.items())
    except AttributeError:
        return None
    return next((str(value) for key, value in items if str(key).lower() == name.lower()), None)


def _kind(error: BaseException) -> str:
    body = getattr(error, "json_body", None)
    told = body.get("error") if isinstance(body, dict) else None
    code = told.get("code") if isinstance(told, dict) else getattr(error, "code", None)
    return code if isinstance(code, str) and code else type(error).__name__
