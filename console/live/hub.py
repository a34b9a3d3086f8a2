"""The live view's hub: one poller a process over the sealed events, while anybody looks.

Bursts are folded: a client is sent each changed thing once a flush, with its newest version.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any, Final

from console.api.workers import Threads
from console.live import feed
from console.live.feed import Change

HEARTBEAT_SECONDS: Final = 15.0
MOST_CLIENTS: Final = 2000
#: Farther back than this a page is told to fetch itself anew.
_LONGEST_CATCH_UP: Final = 5000
_POLL_SECONDS: Final = 0.25
_FOLD_SECONDS: Final = 0.1
_MOST_PENDING: Final = 500


class Client:
    """One open stream: what it wants to hear, and what it has not been sent yet."""

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self.has_news = asyncio.Event()
        self.pending: dict[tuple[str, str], Change] = {}
        self.must_refresh = False
        self.is_over = False

    def offer(self, changes: Iterable[Change]) -> None:
        """Take what concerns this client; too much at once becomes one `resync`."""
        for change in changes:
            if not self.topics or change.topic in self.topics or change.id in self.topics:
                self.pending[change.event, change.id] = change
        if len(self.pending) > _MOST_PENDING:
            self.pending.clear()
            self.must_refresh = True
        if self.pending or self.must_refresh:
            self.has_news.set()

    def take(self, seq: int) -> bytes:
        """What is pending, as server-sent events, and nothing twice."""
        changes = sorted(self.pending.values(), key=lambda change: change.seq)
        lines = []
        if self.must_refresh:
            lines.append(f"id: {seq}\nevent: resync\ndata: {{}}\n\n")
        for change in changes:
            data: dict[str, Any] = {"id": change.id}
            if change.version is not None:
                data["v"] = change.version
            text = json.dumps(data, separators=(",", ":"))
            lines.append(f"id: {change.seq}\nevent: {change.event}\ndata: {text}\n\n")
        self.pending.clear()
        self.must_refresh = False
        self.has_news.clear()
        return "".join(lines).encode()

    def end(self) -> None:
        """Close the stream at its next turn."""
        self.is_over = True
        self.has_news.set()


class Hub:
    """Every live client of this process."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._clients: set[Client] = set()
        self._poller: asyncio.Task[None] | None = None
        self._seq = 0

    @property
    def count(self) -> int:
        """How many streams are open."""
        return len(self._clients)

    async def stream(
        self,
        topics: frozenset[str],
        last_seen: int | None,
        may_go_on: Callable[[], Awaitable[bool]],
    ) -> AsyncGenerator[bytes, None]:
        """Server-sent events until the session ends or the process stops.

        `last_seen` is the Last-Event-ID of a client that comes back: it is sent what it missed.
        """
        client = Client(topics)
        self._clients.add(client)
        try:
            yield b"retry: 3000\n: connected\n\n"
            await self._catch_up(client, last_seen)
            while not client.is_over:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await client.has_news.wait()
                if client.is_over:
                    return
                if not client.has_news.is_set():
                    if not await may_go_on():
                        yield b"event: signed-out\ndata: {}\n\n"
                        return
                    yield b": still here\n\n"
                    continue
                await asyncio.sleep(_FOLD_SECONDS)
                yield client.take(self._seq)
        finally:
            self._clients.discard(client)

    def stop(self) -> None:
        """End every stream."""
        for client in self._clients:
            client.end()
        if self._poller is not None:
            self._poller.cancel()
            self._poller = None

    async def _catch_up(self, client: Client, last_seen: int | None) -> None:
        if self._poller is None or self._poller.done():
            self._seq = await self._threads.run(feed.newest)
            self._poller = asyncio.create_task(self._poll())
        if last_seen is None or last_seen >= self._seq:
            return
        if self._seq - last_seen > _LONGEST_CATCH_UP:
            client.must_refresh = True
            client.has_news.set()
            return
        upto, seq = self._seq, last_seen
        while seq < upto:
            read_to, changes = await self._threads.run(feed.after, seq)
            if read_to == seq:
                return
            seq = read_to
            client.offer(changes)

    async def _poll(self) -> None:
        """Read on while there are clients; a database that is away is asked again."""
        while self._clients:
            await asyncio.sleep(_POLL_SECONDS)
            with contextlib.suppress(Exception):
                self._seq, changes = await self._threads.run(feed.after, self._seq)
                for client in self._clients:
                    client.offer(changes)
