"""The database connection of one worker thread: kept open, and honest about its commits."""

from collections.abc import Callable
from copy import deepcopy
from select import POLLIN, poll
from typing import Any

from django.db import DatabaseError, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg import Error

#: No request of an agent needs longer; a lock held beyond this is somebody's fault to be told of.
_SESSION = (
    "-c statement_timeout=60s -c lock_timeout=10s -c idle_in_transaction_session_timeout=30s"
    # What is prepared here are few statements by key: planning each for its values gains nothing.
    " -c plan_cache_mode=force_generic_plan"
)
_CONNECT_SECONDS = 3


class WorkerConnection(DatabaseWrapper):
    """Knows whether anything was committed in this call, and whether a commit's fate is unknown.

    It is not taken from the pool: a thread that lives as long as the process would hold a pooled
    connection anyway, and a check-out costs a round trip a request.
    """

    commits = 0
    is_commit_uncertain = False
    has_been_open = False

    def begin_call(self) -> None:
        """Forget the last call; let go of a connection that the server has closed meanwhile.

        Noticed before anything is sent on it, a restart of the server leaves no doubt behind.
        """
        self.commits = 0
        self.is_commit_uncertain = False
        if self.connection is not None and self._has_news():
            self.close()
        self.has_been_open = self.connection is not None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        self.has_been_open = True
        return connection

    def _has_news(self) -> bool:
        """An idle connection has nothing to read, unless the server said goodbye."""
        try:
            news = poll()
            news.register(self.connection.fileno(), POLLIN)
            return bool(news.poll(0))
        except (OSError, ValueError, Error):
            return True

    def _commit(self) -> None:
        try:
            super()._commit()  # type: ignore[misc]
        except DatabaseError as error:
            # A COMMIT that was answered by an error is a rollback; without an answer, who knows.
            if self.is_lost(error):
                self.is_commit_uncertain = True
            raise
        self.commits += 1

    def on_commit(self, func: Callable[[], object], robust: bool = False) -> None:
        """Hooks run when the facts are stored: one that fails must not look like a failure."""
        super().on_commit(func, robust=True)

    def is_lost(self, error: Exception | None = None) -> bool:
        """Whether the server end is gone; the driver may not have noticed, so the error counts."""
        if self.connection is None or self.connection.closed:
            return True
        diagnosis = getattr(getattr(error, "__cause__", None), "diag", None)
        return getattr(diagnosis, "severity_nonlocalized", None) in ("FATAL", "PANIC")


def adopt(session_options: str = "") -> WorkerConnection:
    """Give this thread its own lasting connection under the name `default`.

    `session_options`: more of the server's settings, as on its command line.
    """
    parameters: dict[str, Any] = deepcopy(dict(connections.settings["default"]))
    options = parameters["OPTIONS"]
    options.pop("pool", None)
    options["options"] = f"{options.get('options', '')} {_SESSION} {session_options}".strip()
    options.setdefault("connect_timeout", _CONNECT_SECONDS)
    parameters["CONN_MAX_AGE"] = None
    parameters["CONN_HEALTH_CHECKS"] = False
    connection = WorkerConnection(parameters, "default")
    connections["default"] = connection
    return connection
