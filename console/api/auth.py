"""Who is asking: the bearer token to a runtime or a reviewer, remembered for a moment."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from approvals import reviewer_tokens
from console.api import problems
from console.api.requests import Caller, Reviewer
from console.api.workers import Threads
from operations import api_keys
from operations.actors import Runtime

#: A revoked key stops working within this time, in every process.
REMEMBERED_SECONDS: Final = 1.5
_MOST_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Known:
    caller: Runtime | Reviewer
    until: float


class Callers:
    """Finds callers by token. Only good tokens are remembered, by digest, never by their text."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._known: dict[bytes, _Known] = {}
        self._asking: dict[bytes, asyncio.Task[Caller]] = {}

    async def caller(self, authorization: bytes) -> Runtime | Reviewer:
        """The caller behind an Authorization header; 401 for whatever is not good now."""
        scheme, _, token = authorization.partition(b" ")
        token = token.strip()
        if scheme.lower() != b"bearer" or not token:
            raise problems.unauthenticated("Send `Authorization: Bearer <api key>`.")
        try:
            digest = api_keys.digest_of(token.decode("ascii"))
        except UnicodeDecodeError:
            raise problems.unauthenticated("The credential is not good.") from None
        known = self._known.get(digest)
        if known is not None and known.until > time.monotonic():
            return known.caller
        # Many requests of one runtime meet an expired entry at once: one of them asks.
        task = self._asking.get(digest)
        if task is None:
            task = asyncio.create_task(self._ask(digest))
            self._asking[digest] = task
            task.add_done_callback(lambda _: self._asking.pop(digest, None))
        found = await asyncio.shield(task)
        if found is None:
            raise problems.unauthenticated("The credential is not good.")
        return found

    async def _ask(self, digest: bytes) -> Caller:
        asked_at = time.monotonic()
        answer = await self._threads.run(_look_up, digest)
        if answer is None:
            self._known.pop(digest, None)
            return None
        caller, seconds_left = answer
        kept = REMEMBERED_SECONDS if seconds_left is None else min(REMEMBERED_SECONDS, seconds_left)
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[digest] = _Known(caller, asked_at + kept)
        return caller


def _look_up(digest: bytes) -> tuple[Runtime | Reviewer, float | None] | None:
    key = api_keys.find(digest)
    if key is not None:
        return key.runtime, key.seconds_left
    token = reviewer_tokens.find(digest)
    if token is not None:
        return Reviewer(token.user, session=digest.hex()), token.seconds_left
    return None
