"""How bytes reach Stripe: the official SDK over one bounded asynchronous client, with no retries.

The engine paces and repeats; an SDK that did so too would spend the same budget twice.
"""

import asyncio
import ssl
from collections.abc import AsyncIterable, Awaitable, Mapping
from functools import cache
from typing import Any, NoReturn

import aiohttp
import stripe

#: A page of 100 large objects is about 1 MiB; more than this is not an answer but an accident.
LONGEST_ANSWER_BYTES = 16 * 1024 * 1024


class AnswerTooLong(Exception):
    """More bytes than any answer has."""


@cache
def _trusted_roots() -> ssl.SSLContext:
    # Reading the bundle takes tens of milliseconds; every session would pay it.
    return ssl.create_default_context(cafile=stripe.ca_bundle_path)


class BoundedClient(stripe.HTTPClient):
    """The SDK's transport: asynchronous, total timeout per request, answers of bounded length."""

    name = "countersign"

    def __init__(self, *, timeout_seconds: float, connections: int, loopback: bool) -> None:
        super().__init__(verify_ssl_certs=True)
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        # A stand-in on this machine is never behind the company's proxy.
        self._trust_env = not loopback
        self._session: aiohttp.ClientSession | None = None

    def sleep_async(self, secs: float) -> Awaitable[None]:
        """The SDK's own pause; with no retries it is never taken."""
        return asyncio.sleep(secs)

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        """One request; raises the SDK's APIConnectionError where no whole answer came back."""
        if method != "get":
            raise RuntimeError(f"the reconciler only reads, and this is a {method}")
        try:
            async with self._opened().get(
                url, headers=dict(headers), allow_redirects=False
            ) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > LONGEST_ANSWER_BYTES:
                        raise AnswerTooLong
                return bytes(body), response.status, response.headers
        except (aiohttp.ClientError, TimeoutError, AnswerTooLong, ValueError) as problem:
            self._unreachable(problem)

    async def request_stream_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[AsyncIterable[bytes], int, Mapping[str, str]]:
        """Nothing here reads files."""
        raise NotImplementedError

    async def close_async(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        # Made at the first request: it belongs to the event loop that runs then.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, ssl=_trusted_roots()),
                timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
                trust_env=self._trust_env,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _unreachable(self, problem: Exception) -> NoReturn:
        if isinstance(problem, TimeoutError):
            words = f"no answer within {self._timeout_seconds:g} s"
        elif isinstance(problem, AnswerTooLong):
            words = f"an answer longer than {LONGEST_ANSWER_BYTES >> 20} MiB"
        else:
            words = f"the connection failed ({type(problem).__name__})"
        raise stripe.APIConnectionError(words) from problem  # type: ignore[no-untyped-call]
