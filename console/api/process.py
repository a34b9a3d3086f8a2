"""What one web process holds: threads, callers, waiters, the live hub; and how it ends."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings

from console.api import readiness
from console.api.auth import Callers
from console.api.groups import Groups
from console.api.metrics import Metrics
from console.api.waiting import Waiting
from console.api.workers import Workers
from console.live.hub import Hub

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Process:
    """Everything with a lifetime. Nothing starts before it is first used."""

    def __init__(self) -> None:
        self.workers = Workers("api", settings.API_THREADS)
        self.groups = Groups(self.workers)
        # Waking, reading what woke, credentials and probes must not queue behind the writes.
        self.side = Workers("api-side", 2)
        self._probe_thread = Workers("api-probe", 1)
        self._probe: asyncio.Task[dict[str, readiness.Part]] | None = None
        self.callers = Callers(self.side)
        self.waiting = Waiting(self.side)
        self.hub = Hub(self.side)
        self.metrics = Metrics()

    def gauges(self) -> dict[str, float]:
        """Sizes now, for /metrics."""
        return {
            "api_calls_running_or_queued": self.workers.waiting,
            "api_calls_waiting_for_a_group": self.groups.waiting,
            "api_threads": self.workers.size,
            "long_poll_waiters": self.waiting.count,
            "live_clients": self.hub.count,
        }

    async def probe(self) -> dict[str, readiness.Part]:
        """How every part is; those who ask at the same time share one look."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._probe_thread.run(readiness.look))
        return await asyncio.shield(self._probe)

    async def lifespan(self, receive: Receive, send: Send) -> None:
        """Answer the server's lifespan messages."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._answer_waiters_on_signals()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.let_go()
                await asyncio.to_thread(self._stop_threads)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def let_go(self) -> None:
        """Answer all who wait, end all streams: a stop must not take as long as a long poll."""
        self.waiting.stop()
        self.hub.stop()

    def _stop_threads(self) -> None:
        self.groups.stop()
        self.workers.stop()
        self.side.stop()
        self._probe_thread.stop()

    def _answer_waiters_on_signals(self) -> None:
        """Servers stop accepting on a signal, then wait for open requests: end those at once."""
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            servers_own = signal.getsignal(number)

            def handler(number: int, frame: Any, servers_own: Any = servers_own) -> None:
                loop.call_soon_threadsafe(self.let_go)
                if callable(servers_own):
                    servers_own(number, frame)

            signal.signal(number, handler)
