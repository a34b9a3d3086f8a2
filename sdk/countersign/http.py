"""Asking the console over HTTP, once: an answer or the reason why there is none, never a raise."""

from typing import Any

import httpx
from countersign import clock
from countersign.clock import Instant
from countersign.steps import Reply, Send, reply_from

VERSION = "0.1.0"
_CONNECT_SECONDS = 5.0
#: Nothing of the request left this process.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100)


class SyncConsole:
    def __init__(
        self, base_url: str, api_key: str, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._http = httpx.Client(
            base_url=base_url, headers=_headers(api_key), limits=_LIMITS, transport=transport
        )

    def ask(self, send: Send) -> Reply:
        asked_at = clock.now()
        try:
            answer = self._http.request(send.method, send.path, **_options(send))
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            return _unanswered(asked_at, problem)
        return _answered(asked_at, answer)

    def close(self) -> None:
        self._http.close()


class AsyncConsole:
    def __init__(
        self, base_url: str, api_key: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url, headers=_headers(api_key), limits=_LIMITS, transport=transport
        )

    async def ask(self, send: Send) -> Reply:
        asked_at = clock.now()
        try:
            answer = await self._http.request(send.method, send.path, **_options(send))
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            return _unanswered(asked_at, problem)
        return _answered(asked_at, answer)

    async def close(self) -> None:
        await self._http.aclose()


def _headers(api_key: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {api_key}",
        "Content-Type": "application/json",
        "User-Agent": f"countersign-python/{VERSION}",
    }


def _options(send: Send) -> dict[str, Any]:
    timeout = httpx.Timeout(send.seconds, connect=min(_CONNECT_SECONDS, send.seconds))
    return {"content": send.body, "timeout": timeout}


def _answered(asked_at: Instant, answer: httpx.Response) -> Reply:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return reply_from(asked_at, answer.status_code, headers, answer.content)


def _unanswered(asked_at: Instant, problem: Exception) -> Reply:
    said = f"{type(problem).__name__}: {problem}"
    return Reply(asked_at, error=said, reached=not isinstance(problem, _UNSENT))
