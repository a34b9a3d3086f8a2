"""One GET at a time through the gate, and what each failure of Stripe's means for a look."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import stripe

from reconcilers.providers.base import AccountAccess, Gate, ProviderError
from reconcilers.providers.stripe.transport import BoundedClient

#: Stripe's own name of a permission; the rest of its sentence holds part of the key.
_PERMISSION = re.compile(r"\brak_[a-z0-9_]{1,60}\b")

API_BASE = "https://api.stripe.com"


@dataclass(frozen=True, kw_only=True)
class Page:
    """An answer of Stripe's: parsed, as it came, and the id under which Stripe logged it.

    `told_at` is Stripe's own clock, by its header, None where it gave none.
    """

    body: Mapping[str, Any]
    raw: bytes
    request_id: str
    told_at: datetime | None = None


class Missing(Exception):
    """404: nothing of that id is there in this account and mode."""

    def __init__(self, page: Page) -> None:
        super().__init__("no such object")
        self.page = page


class Reader:
    """Reads one account. Raises ProviderError for everything that is not an answer, or Missing."""

    def __init__(self, access: AccountAccess, gate: Gate, *, concurrency: int) -> None:
        base = str(access.config.get("base_url") or API_BASE).rstrip("/")
        host = urlsplit(base).hostname or ""
        self.gate = gate
        self.mode = mode_of_key(access.secrets["secret_key"])
        self._http = BoundedClient(
            timeout_seconds=float(access.config.get("timeout_seconds") or 15),
            connections=concurrency,
            loopback=host in {"localhost", "127.0.0.1", "::1"},
        )
        self._client = stripe.StripeClient(
            access.secrets["secret_key"],
            stripe_account=access.config.get("connected_account") or None,
            base_addresses={"api": base},
            max_network_retries=0,
            http_client=self._http,
        )

    async def get(self, path: str, params: Mapping[str, Any], *, endpoint: str) -> Page:
        """`path` under /v1/; `endpoint` names the limit that it counts against."""
        await self.gate.turn(endpoint)
        try:
            response = await self._client.raw_request_async("get", f"/v1/{path}", **params)
        except stripe.StripeError as problem:
            if problem.http_status == 404 and isinstance(problem, stripe.InvalidRequestError):
                await self.gate.answered(endpoint)
                raise Missing(_page_of_error(problem)) from None
            error = _provider_error(problem, path)
            await self.gate.failed(endpoint, error)
            raise error from None
        await self.gate.answered(endpoint)
        if not isinstance(response.data, dict):
            raise ProviderError(f"the answer of /v1/{path} is no object")
        raw = response.body.encode() if isinstance(response.body, str) else response.body
        return Page(
            body=response.data,
            raw=raw,
            request_id=response.request_id or "",
            told_at=_told_at(response.headers or {}),
        )

    async def close(self) -> None:
        """Close the connections; a failure to do so is nobody's concern any more."""
        with contextlib.suppress(Exception):
            await self._http.close_async()


def mode_of_key(secret_key: str) -> str:
    """`live` or `test`, as the key's own prefix says; empty for neither."""
    for mode in ("live", "test"):
        if secret_key.startswith((f"sk_{mode}_", f"rk_{mode}_")):
            return mode
    return ""


def _told_at(headers: Mapping[str, str]) -> datetime | None:
    for name, value in headers.items():
        if name.lower() == "date":
            with contextlib.suppress(ValueError):
                moment = parsedate_to_datetime(value)
                return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None


def _page_of_error(problem: stripe.StripeError) -> Page:
    raw = problem.http_body or b""
    body = problem.json_body if isinstance(problem.json_body, dict) else {}
    return Page(
        body=body,
        raw=raw.encode() if isinstance(raw, str) else raw,
        request_id=problem.request_id or "",
    )


def _provider_error(problem: stripe.StripeError, path: str) -> ProviderError:
    """Words a person can act on. Never the SDK's own text: a 401's holds part of the key."""
    status = problem.http_status
    resource = path.removeprefix("test_helpers/").split("/", 1)[0]
    if isinstance(problem, stripe.RateLimitError):
        code = _code(problem)
        kind = "an object is locked" if code == "lock_timeout" else "too many requests"
        return ProviderError(
            f"429, {kind}", status=429, retry_after_seconds=_retry_after(problem) or 1.0
        )
    if isinstance(problem, stripe.AuthenticationError):
        return ProviderError("401, the secret key is not accepted", permanent=True, status=401)
    if isinstance(problem, stripe.PermissionError):
        named = _PERMISSION.search(str(problem.user_message or ""))
        return ProviderError(
            f"403, the key may not read {resource}: give it"
            f" {f'the permission {named[0]}' if named else 'that permission'}"
            " in Stripe's dashboard",
            permanent=True,
            status=403,
        )
    if isinstance(problem, stripe.APIConnectionError):
        return ProviderError(str(problem.user_message or "the connection failed"))
    if status is not None and status >= 500:
        return ProviderError(
            f"{status} from Stripe", status=status, retry_after_seconds=_retry_after(problem)
        )
    if status is None or status < 400:
        return ProviderError("an answer that cannot be read", status=status)
    return ProviderError(
        f"{status}, /v1/{path} refused the question ({_code(problem) or 'no code'})",
        permanent=True,
        status=status,
    )


def _code(problem: stripe.StripeError) -> str:
    details = problem.json_body.get("error") if isinstance(problem.json_body, dict) else None
    code = details.get("code") if isinstance(details, dict) else None
    return code if isinstance(code, str) else ""


def _retry_after(problem: stripe.StripeError) -> float | None:
    """Seconds, bounded to an hour; the HTTP-date form is not used by Stripe."""
    headers = problem.headers or {}
    for name, value in headers.items():
        if name.lower() == "retry-after":
            with contextlib.suppress(ValueError):
                return min(max(float(value), 0.0), 3600.0)
    return None
