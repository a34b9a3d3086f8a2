"""A bounded pool of threads that run the synchronous services, and what their failures mean.

Requests beyond the pool wait in its queue. A client that hangs up never stops a running call: the
transaction ends as it would have, and only its answer is lost.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol

from django.db import Error as DatabaseFailure
from django.db import InterfaceError, OperationalError, connections
from psycopg import errors as postgres
from psycopg.errors import DeadlockDetected, SerializationFailure

from console.api import connection, problems
from operations.errors import DomainError

log = logging.getLogger(__name__)

_TRIES: Final = 4
#: What Postgres refuses by its own limits, it refuses again; "operational" or not.
_LIMITS: Final = "54"


class Threads(Protocol):
    """Where blocking calls run."""

    async def run[T](self, work: Callable[..., T], *arguments: Any) -> T:
        """The call's answer; raises what it raised."""
        ...


class Workers:
    """Threads with a lasting database connection each, for one event loop.

    Not `concurrent.futures`: its locks and its two futures a call cost as much as the HTTP parser.
    Here a call costs one queue entry, and all that ends in one turn wakes the loop once.
    """

    def __init__(self, name: str, size: int, *, options: str = "") -> None:
        self.name = name
        self.size = size
        self.options = options
        self.waiting = 0
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._ended: deque[_Call] = deque()
        self._is_woken = False
        self._threads: list[Thread] = []

    async def run[T](self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in a thread; raises its Problem, or the one that its failure amounts to.

        Cancelling the caller leaves the thread to finish its transaction.
        """
        loop = asyncio.get_running_loop()
        if not self._threads:
            self._start(loop)
        entry = _Call(work, arguments, loop.create_future())
        self.waiting += 1
        self._calls.put(entry)
        try:
            return await entry.future  # type: ignore[no-any-return]
        finally:
            self.waiting -= 1

    def stop(self) -> None:
        """Let running and queued calls end."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in range(self.size):
            name = f"{self.name}-{number}"
            thread = Thread(target=self._work, args=(loop,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        connection.adopt(self.options)
        take, ended = self._calls.get, self._ended
        while (entry := take()) is not None:
            try:
                entry.result = call(entry.work, *entry.arguments)
            except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
                entry.error = error
            ended.append(entry)
            # Append, then look: a wake-up that is pending has not begun to take, and takes all.
            if not self._is_woken:
                self._is_woken = True
                with contextlib.suppress(RuntimeError):  # the loop has ended before us
                    loop.call_soon_threadsafe(self._deliver)
            del entry
        connections.close_all()

    def _deliver(self) -> None:
        self._is_woken = False
        while self._ended:
            entry = self._ended.popleft()
            if not entry.future.done():
                if entry.error is not None:
                    entry.future.set_exception(entry.error)
                else:
                    entry.future.set_result(entry.result)


class _Call:
    __slots__ = ("arguments", "error", "future", "result", "work")

    def __init__(
        self, work: Callable[..., Any], arguments: tuple[Any, ...], future: asyncio.Future[Any]
    ) -> None:
        self.work = work
        self.arguments = arguments
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


def call[T](work: Callable[..., T], *arguments: Any) -> T:
    """One call in this thread: retried while that is safe, else answered by what is known.

    Safe means that nothing was committed: a lost connection on a first statement (the server was
    restarted since), a deadlock, a serialization failure.
    """
    database: Any = connections["default"]
    for attempt in range(1, _TRIES + 1):
        database.begin_call()
        try:
            return work(*arguments)
        except problems.Problem:
            raise
        except DomainError as error:
            raise problems.of(error) from None
        except DatabaseFailure as error:
            if not _may_retry(database, error) or attempt == _TRIES:
                raise problems.unavailable() from error
            time.sleep(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311
    raise AssertionError("unreachable")


def _may_retry(database: Any, error: DatabaseFailure) -> bool:
    """Whether to try again; raises where the error is a defect or the fate is unknown."""
    cause = error.__cause__
    lost = database.is_lost(error)
    # Where no connection could be opened nothing was sent, whatever else is suspected.
    uncertain = database.has_been_open and (database.is_commit_uncertain or database.commits)
    if lost:
        database.close()
    if uncertain:
        log.warning("commit without an answer: %s", type(cause or error).__name__)
        raise problems.outcome_uncertain() from error
    if isinstance(cause, DeadlockDetected | SerializationFailure):
        return True
    if isinstance(error, InterfaceError) or _is_passing(error, cause):
        log.warning("database: %s", type(cause or error).__name__)
        # The server went away in this call: a new connection may well work.
        return lost and bool(database.has_been_open)
    raise error


def _is_passing(error: DatabaseFailure, cause: BaseException | None) -> bool:
    """Whether it is the server's state that failed, rather than the statement."""
    if isinstance(cause, postgres.ReadOnlySqlTransaction):  # it was a primary a moment ago
        return True
    sqlstate = getattr(cause, "sqlstate", None) or ""
    return isinstance(error, OperationalError) and not sqlstate.startswith(_LIMITS)
