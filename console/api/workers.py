"""A bounded pool of threads that run the synchronous services, and what their failures mean.

Requests beyond the pool wait in its queue. A client that hangs up never stops a running call: the
transaction ends as it would have, and only its answer is lost.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from django.db import Error as DatabaseFailure
from django.db import InterfaceError, OperationalError, connections
from psycopg import errors as postgres
from psycopg.errors import DeadlockDetected, SerializationFailure

from console.api import connection, problems
from operations.errors import DomainError

log = logging.getLogger(__name__)

_TRIES: Final = 4
#: A standby that was promoted away, or a server that is starting: come back later.
_PASSING: Final = (postgres.ReadOnlySqlTransaction, postgres.CannotConnectNow)


class Workers:
    """Threads with a lasting database connection each."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.waiting = 0
        self._threads: ThreadPoolExecutor | None = None

    async def run[T](self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in a thread; raises its Problem, or the one that its failure amounts to."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self.size, thread_name_prefix=self.name, initializer=connection.adopt
            )
        self.waiting += 1
        try:
            # Shielded: a cancelled request leaves the thread to finish its transaction.
            return await asyncio.shield(
                asyncio.get_running_loop().run_in_executor(self._threads, call, work, *arguments)
            )
        finally:
            self.waiting -= 1

    def stop(self) -> None:
        """Let running calls end; queued ones too."""
        if self._threads is not None:
            self._threads.submit(connections.close_all)
            self._threads.shutdown(wait=True)
            self._threads = None


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
    lost = database.is_broken()
    uncertain = database.is_commit_uncertain or database.commits
    if lost:
        database.close()
    if uncertain:
        log.warning("commit without an answer: %s", type(cause or error).__name__)
        raise problems.outcome_uncertain() from error
    if isinstance(cause, DeadlockDetected | SerializationFailure):
        return True
    if isinstance(error, OperationalError | InterfaceError) or isinstance(cause, _PASSING):
        log.warning("database: %s", type(cause or error).__name__)
        # The server was restarted since the last call: a new connection may well work.
        return lost and bool(database.was_open)
    raise error
