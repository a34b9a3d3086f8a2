"""One GET at a time: bounded in time and length, no redirects, no cookies, no proxy, no retries."""

import base64
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from reconcilers.providers.base import AccountAccess, Gate, ProviderError
from reconcilers.providers.http.addresses import (
    GuardedResolver,
    PrivateAddress,
    refused_address,
)
from reconcilers.providers.rest import AnswerTooLong, Reply, retry_after

LONGEST_ANSWER_BYTES: Final = 2 * 1024 * 1024
ENDPOINT: Final = "lookup"


class Fetcher:
    """Reads addresses with one account's credentials."""

    def __init__(self, access: AccountAccess, gate: Gate, *, connections: int) -> None:
        self._gate = gate
        self._headers = {"Accept": "application/json", **_signed(access)}
        self._timeout_seconds = float(access.config.get("timeout_seconds") or 10)
        self._private = access.config.get("allow_private") is True
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        # The headers hold the credentials.
        return "Fetcher()"

    async def get(self, url: str) -> Reply:
        """The answer where it is one, or a 404; raises ProviderError for everything else."""
        await self._gate.turn(ENDPOINT)
        try:
            reply = await self._fetch(url)
        except PrivateAddress:
            # Nobody was asked.
            raise ProviderError(
                "the name leads to a private address, which this account does not allow",
                permanent=True,
            ) from None
        except (aiohttp.ClientError, TimeoutError, AnswerTooLong, OSError, ValueError) as error:
            problem = self._unreachable(error)
            await self._gate.failed(ENDPOINT, problem)
            raise problem from None
        refusal = _refusal(reply)
        if refusal is not None:
            await self._gate.failed(ENDPOINT, refusal)
            raise refusal
        await self._gate.answered(ENDPOINT)
        return reply

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _fetch(self, url: str) -> Reply:
        # Escaped by us already; the library must not unescape what stands for a key.
        address = URL(url, encoded=True)
        if not self._private and refused_address(urlsplit(url).hostname or ""):
            # The library asks no resolver about a literal address.
            raise PrivateAddress
        async with self._opened().get(address, allow_redirects=False) as response:
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
            guard: Mapping[str, Any] = {} if self._private else {"resolver": GuardedResolver()}
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connections, ssl=_trusted_roots(), use_dns_cache=False, **guard
                ),
                timeout=aiohttp.ClientTimeout(total=self._timeout_seconds),
                # A proxy would resolve the name where we cannot see what it finds.
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
            )
        return self._session

    def _unreachable(self, error: Exception) -> ProviderError:
        if isinstance(error, TimeoutError):
            return ProviderError(f"no answer within {self._timeout_seconds:g} s")
        if isinstance(error, AnswerTooLong):
            return ProviderError(f"an answer longer than {LONGEST_ANSWER_BYTES >> 20} MiB")
        return ProviderError(f"the connection failed ({type(error).__name__})")


def _refusal(reply: Reply) -> ProviderError | None:
    status = reply.status
    if status in {200, 404}:
        return None
    if status == 401:
        return ProviderError("401, the credentials are not accepted", permanent=True, status=status)
    if status == 403:
        return ProviderError("403, the credentials may not read this", permanent=True, status=403)
    if status == 429:
        return ProviderError(
            "429, too many requests", status=429, retry_after_seconds=retry_after(reply) or 1.0
        )
    if status >= 500:
        return ProviderError(
            f"{status} from the interface", status=status, retry_after_seconds=retry_after(reply)
        )
    if 300 <= status < 400:
        return ProviderError(
            f"{status}, a redirect, which is not followed", permanent=True, status=status
        )
    return ProviderError(f"{status}, the question is refused", permanent=True, status=status)


def _signed(access: AccountAccess) -> dict[str, str]:
    secrets = access.secrets
    if "bearer" in secrets:
        return {"Authorization": f"Bearer {secrets['bearer']}"}
    if "basic_password" in secrets:
        pair = f"{access.config['basic_user']}:{secrets['basic_password']}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    if "header_value" in secrets:
        return {str(access.config["header_name"]): secrets["header_value"]}
    return {}


@cache
def _trusted_roots() -> ssl.SSLContext:
    # Reading the bundle takes tens of milliseconds; every session would pay it.
    return ssl.create_default_context()
