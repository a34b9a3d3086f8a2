"""Waiting for an operation to change: thousands of waiters, no thread of their own.

One LISTEN connection a process wakes them. A waiter registers first (the row that makes the
trigger notify), then reads, and all that still wait are read again every two seconds in one query:
a wake-up that was lost, by a commit that did not see the row yet or by a broken connection, costs
two seconds and never an answer.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from typing import Final
from uuid import UUID

from django.db import connections
from psycopg import AsyncConnection, Error

from console.api import problems
from console.api.workers import Threads
from operations import waiters

log = logging.getLogger(__name__)

LONGEST_SECONDS: Final = 30.0
_REREAD_SECONDS: Final = 2.0
_ROW_SECONDS: Final = LONGEST_SECONDS * 2
_RECONNECT_SECONDS: Final = 0.5


class Waiting:
    """Everyone in this process who waits for an operation's version to differ."""

    def __init__(self, threads: Threads) -> None:
        self.process = f"{os.getpid()}.{secrets.token_hex(6)}"
        self._threads = threads
        self._waiters: dict[UUID, set[_Waiter]] = {}
        self._unregistered: set[UUID] = set()
        self._registered: set[UUID] = set()
        self._there_are_new = asyncio.Event()
        self._writing_rows = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def count(self) -> int:
        """How many wait now."""
        return sum(map(len, self._waiters.values()))

    async def wait(self, operation: UUID, since: int, seconds: float) -> None:
        """Return once the operation's version is not `since`, or after `seconds`."""
        self._start()
        waiter = _Waiter(since)
        self._waiters.setdefault(operation, set()).add(waiter)
        # Even where the row stands already, the version must be read after this waiter exists.
        self._unregistered.add(operation)
        self._there_are_new.set()
        try:
            async with asyncio.timeout(seconds):
                await waiter.woken.wait()
        except TimeoutError:
            pass
        finally:
            others = self._waiters[operation]
            others.discard(waiter)
            if not others:
                del self._waiters[operation]

    def stop(self) -> None:
        """End the background tasks and answer all who wait."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        for waiters_of_one in self._waiters.values():
            for waiter in waiters_of_one:
                waiter.woken.set()

    def _start(self) -> None:
        if not self._tasks:
            loops = (self._register(), self._reread(), self._listen())
            self._tasks = [asyncio.create_task(loop) for loop in loops]

    def _wake(self, versions: dict[UUID, int]) -> None:
        for operation, version in versions.items():
            for waiter in self._waiters.get(operation, ()):
                if version != waiter.since:
                    waiter.woken.set()

    async def _register(self) -> None:
        """Register whoever came since the last round, in one statement."""
        while True:
            await self._there_are_new.wait()
            self._there_are_new.clear()
            async with self._writing_rows:
                batch, self._unregistered = self._unregistered, set()
                try:
                    self._wake(await self._threads.run(self._write_rows, batch))
                    self._registered |= batch
                except problems.Problem:
                    self._unregistered |= batch  # the next re-read brings them back

    def _write_rows(self, batch: set[UUID]) -> dict[UUID, int]:
        return waiters.register(batch, process=self.process, seconds=_ROW_SECONDS)

    async def _reread(self) -> None:
        """Read all that still wait, every two seconds; drop the rows that nobody needs."""
        while True:
            await asyncio.sleep(_REREAD_SECONDS)
            with contextlib.suppress(problems.Problem):
                if waiting := set(self._waiters):
                    self._wake(await self._threads.run(waiters.versions, waiting))
                async with self._writing_rows:
                    if idle := self._registered - set(self._waiters):
                        await self._threads.run(self._forget, idle)
                        self._registered -= idle
            if self._unregistered:
                self._there_are_new.set()

    def _forget(self, idle: set[UUID]) -> None:
        waiters.forget(idle, process=self.process)
        waiters.forget_expired()

    async def _listen(self) -> None:
        """Keep one LISTEN connection; whatever happens to it, the re-read still works."""
        while True:
            try:
                await self._listen_once()
            except (Error, OSError) as error:
                log.warning("listening stopped: %s", type(error).__name__)
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        async with await _connect() as connection:
            await connection.execute(f"LISTEN {waiters.CHANNEL}")
            self._unregistered |= set(self._waiters)  # read what was missed meanwhile
            self._there_are_new.set()
            async for message in connection.notifies():
                operation, _, version = message.payload.partition(":")
                self._wake({UUID(operation): int(version)})


class _Waiter:
    __slots__ = ("since", "woken")

    def __init__(self, since: int) -> None:
        self.since = since
        self.woken = asyncio.Event()


async def _connect() -> AsyncConnection:
    parameters = connections["default"].get_connection_params()
    for django_only in ("cursor_factory", "context", "pool"):
        parameters.pop(django_only, None)
    parameters.setdefault("connect_timeout", 3)
    parameters["application_name"] = "countersign waiting"
    return await AsyncConnection.connect(**parameters, autocommit=True)
