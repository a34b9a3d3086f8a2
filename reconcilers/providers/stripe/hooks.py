"""Stripe's webhooks: the signature over the raw body first, by the official SDK; then the words.

An event is shaped by the API version of its endpoint, not by the SDK's: what is missing makes it
unreadable, never empty.
"""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

import stripe

from reconcilers.providers.base import AccountAccess
from reconcilers.providers.hooks import Hook, HookRefused
from reconcilers.providers.stripe.objects import OBJECTS, marker_of, mode_of, sighting_of

HEADER: Final = "stripe-signature"
#: Stripe's own default; each retry is signed anew.
TOLERANCE_SECONDS: Final = 300
_SECRETS: Final = ("webhook_secret", "webhook_secret_before")


def verify(secrets: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> None:
    """Raise HookRefused unless one of the account's secrets signed these very bytes lately."""
    known = [secrets[name] for name in _SECRETS if secrets.get(name)]
    if not known:
        raise HookRefused("no_secret")
    given = headers.get(HEADER, "")
    if not given:
        raise HookRefused("no_signature")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise HookRefused("not_text") from None
    if any(_holds(text, given, secret, TOLERANCE_SECONDS) for secret in known):
        return
    if any(_holds(text, given, secret, None) for secret in known):
        raise HookRefused("stale")
    raise HookRefused("no_match")


def read(access: AccountAccess, headers: Mapping[str, str], body: bytes) -> Hook:
    """The verified event. What it lacks is said, and nothing is guessed."""
    verify(access.secrets, headers, body)
    try:
        event = json.loads(body)
    except ValueError:
        return Hook.illegible(body, "it is no JSON")
    if not isinstance(event, dict) or not isinstance(event.get("id"), str):
        return Hook.illegible(body, "it has no id")
    if not _is_text(event):
        return Hook.illegible(body, "it holds characters that no database keeps")
    return _hook(event)


def _holds(text: str, header: str, secret: str, tolerance: int | None) -> bool:
    try:
        stripe.WebhookSignature.verify_header(text, header, secret, tolerance)
    except stripe.SignatureVerificationError:
        return False
    return True


def _hook(event: Mapping[str, Any]) -> Hook:
    request = event.get("request")
    key = request.get("idempotency_key") if isinstance(request, dict) else None
    data = event.get("data")
    body = data.get("object") if isinstance(data, dict) else None
    known: dict[str, Any] = {
        "event_id": event["id"],
        "type": str(event.get("type") or ""),
        "mode": mode_of(event),
        "account": str(event.get("account") or ""),
        "api_version": str(event.get("api_version") or ""),
        "happened_at": _moment(event.get("created")),
        "request_key": key if isinstance(key, str) else None,
    }
    missing = [name for name in ("type", "mode") if not known[name]]
    if not isinstance(body, dict) or not isinstance(body.get("object"), str):
        return Hook(**known, unreadable="it has no data.object")
    if missing:
        return Hook(**known, unreadable=f"it has no {' and no '.join(missing)}")
    try:
        seen, marker = _sighting(body), marker_of(body)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return Hook(**known, unreadable="its object has another shape than any that is known")
    return Hook(
        **known,
        marker=marker,
        change=sha256(json.dumps(body, sort_keys=True).encode()).digest(),
        sighting=seen,
    )


def _is_text(event: Mapping[str, Any]) -> bool:
    """JSON may spell NUL and halves of characters, which are no text."""
    spelt = json.dumps(event, ensure_ascii=False)
    try:
        return "\\u0000" not in spelt and bool(spelt.encode())
    except UnicodeEncodeError:
        return False


def _sighting(body: Mapping[str, Any]) -> Any:
    kind = body["object"]
    object_id = body.get("id")
    if kind not in OBJECTS or not isinstance(object_id, str) or len(object_id) > 255:
        return None
    return sighting_of(kind, body, verified=False)


def _moment(created: Any) -> datetime | None:
    if not isinstance(created, int) or not 0 <= created <= time.time() + 10 * 365 * 86400:
        return None
    return datetime.fromtimestamp(created, UTC)
