"""Reading a JSON interface over HTTP, for providers without an official asynchronous client.

One GET at a time through the gate, with a total timeout, answers of bounded length, no redirects,
no cookies and no retries: the engine paces and repeats.
"""

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from reconcilers.providers.base import BadConfig, Gate, ProviderError

#: A page of 100 large objects is a few MiB; more than this is not an answer but an accident.
LONGEST_ANSWER_BYTES = 16 * 1024 * 1024

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class AnswerTooLong(Exception):
    """More bytes than any answer has."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer as it came. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    def body(self) -> Any:
        """The answer's JSON; raises ProviderError where it is none."""
        try:
            return json.loads(self.raw)
        except ValueError:
            raise ProviderError("an answer that cannot be read", status=self.status) from None

    def said(self, name: str) -> Any:
        """A member of the answer's object, None where it is no object or has no such member."""
        try:
            body = self.body()
        except ProviderError:
            return None
        return body.get(name) if isinstance(body, dict) else None


#: Tells why a reply is no answer, or that it is one (None).
Refusal = Callable[[Reply], ProviderError | None]


class RestReader:
    """GETs under one origin. `title` is the provider's name in the words of a failure."""

    def __init__(
        self,
        base_url: str,
        gate: Gate,
        *,
        title: str,
        headers: Mapping[str, str],
        refusal: Refusal,
        timeout_seconds: float,
        connections: int,
    ) -> None:
        self.gate = gate
        self.base = base_url.rstrip("/")
        self._title = title
        self._headers = dict(headers)
        self._refusal = refusal
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        # The headers hold the credentials.
        return f"RestReader({self.base})"

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, endpoint: str
    ) -> Reply:
        """GET `path` (with a leading slash); `endpoint` names the limit that it counts against.

        Raises ProviderError for whatever is not an answer.
        """
        await self.gate.turn(endpoint)
        try:
            reply = await self._fetch(self.base + path, params or {})
            error = self._refusal(reply)
        except (aiohttp.ClientError, TimeoutError, AnswerTooLong, OSError) as problem:
            error = self._unreachable(problem)
            await self.gate.failed(endpoint, error)
            raise error from None
        if error is not None:
            await self.gate.failed(endpoint, error)
            raise error
        await self.gate.answered(endpoint)
        return reply

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _fetch(self, url: str, params: Mapping[str, str]) -> Reply:
        async with self._opened().get(url, params=params, allow_redirects=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > LONGEST_ANSWER_BYTES:
                    raise AnswerTooLong
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Reply(status=response.status, headers=headers, raw=bytes(body))

    def _opened(self) -> aiohttp.ClientSession:
        # Made at the first request: it belongs to the event loop that runs then.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, ssl=_trusted_roots()),
                timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
                # A stand-in on this machine is never behind the company's proxy.
                trust_env=urlsplit(self.base).hostname not in _LOOPBACK,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
            )
        return self._session

    def _unreachable(self, problem: Exception) -> ProviderError:
        if isinstance(problem, TimeoutError):
            words = f"no answer within {self._timeout_seconds:g} s"
        elif isinstance(problem, AnswerTooLong):
            words = f"an answer longer than {LONGEST_ANSWER_BYTES >> 20} MiB"
        else:
            words = f"the connection to {self._title} failed ({type(problem).__name__})"
        return ProviderError(words)


def retry_after(reply: Reply) -> float | None:
    """Seconds of a Retry-After header, bounded to an hour; None where it gives none."""
    try:
        return min(max(float(reply.headers.get("retry-after", "")), 0.0), 3600.0)
    except ValueError:
        return None


def check_base_url(value: Any) -> None:
    """Raise BadConfig unless it is an origin with a path at most, encrypted where it leaves us."""
    parts = urlsplit(str(value))
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise BadConfig("base_url: expected an origin, such as http://127.0.0.1:12111")
    if parts.username is not None:
        raise BadConfig("base_url: credentials do not belong into it")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise BadConfig("base_url: expected https, for the token travels with every question")


def check_numbers(values: Mapping[str, Any]) -> None:
    """Raise BadConfig where `limits`, `timeout_seconds` and the like are not above zero."""
    for name, value in values.items():
        members = value.values() if isinstance(value, dict) else [value]
        for number in members:
            if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
                raise BadConfig(f"{name}: expected numbers above zero")


@cache
def _trusted_roots() -> ssl.SSLContext:
    # Reading the bundle takes tens of milliseconds; every session would pay it.
    return ssl.create_default_context()
