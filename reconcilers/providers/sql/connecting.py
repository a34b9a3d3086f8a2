"""One connection to the customer's database, and what each failure of Postgres's means for a look.

Nothing of Postgres's own text is repeated: it may hold values of the customer's rows.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection

from reconcilers.providers.base import ProviderError

#: Beyond the statement's own timeout: the network may be silent where the server is not.
_PATIENCE_SECONDS: Final = 2.0

#: libpq gives no code for a refusal at the door; it says these words in English or not at all.
_AT_THE_DOOR: Final = (
    ("password authentication failed", "the role or its password is not accepted", True),
    ("no password supplied", "the server asks for a password in a way that is not supported", True),
    ("no pg_hba.conf entry", "the server lets this role in from nowhere near us", True),
    ("certificate verify failed", "the server's certificate is not to be trusted", True),
    ("does not match host name", "the server's certificate is another host's", True),
    ("server does not support SSL", "the server offers no TLS", True),
)


class Lines:
    """Connections of one account; `reader` sees, `writer` may take a tombstone."""

    def __init__(self, config: Mapping[str, Any], secrets: Mapping[str, str]) -> None:
        self._config = config
        self._secrets = secrets
        self.timeout_seconds = float(config.get("timeout_seconds") or 5)

    def __repr__(self) -> str:
        return f"Lines({self._config['host']})"

    @contextlib.asynccontextmanager
    async def reader(self) -> AsyncIterator["Line"]:
        """A connection on which Postgres refuses every write."""
        async with self._opened("user", "password", read_only=True) as line:
            yield line

    @contextlib.asynccontextmanager
    async def writer(self) -> AsyncIterator["Line"]:
        """A connection for tombstones, with their own credentials."""
        names = ("tombstone_user", "tombstone_password")
        async with self._opened(*names, read_only=False) as line:
            yield line

    @contextlib.asynccontextmanager
    async def _opened(self, user: str, password: str, *, read_only: bool) -> AsyncIterator["Line"]:
        # The authority's file is read again where a statement is cancelled.
        with self._root() as root:
            connection = await self._connect(
                user=self._config[user],
                password=self._secrets[password],
                root=root,
                read_only=read_only,
            )
            try:
                yield Line(connection, self.timeout_seconds, read_only=read_only)
            finally:
                # Whatever is open there is rolled back by this; a silent server holds nobody up.
                await connection.close()

    async def _connect(
        self, *, user: str, password: str, root: str, read_only: bool
    ) -> AsyncConnection[Any]:
        milliseconds = int(self.timeout_seconds * 1000)
        settings = {
            "statement_timeout": milliseconds,
            "lock_timeout": milliseconds,
            "idle_in_transaction_session_timeout": milliseconds,
            "default_transaction_read_only": "on" if read_only else "off",
            "timezone": "UTC",
            "datestyle": "ISO",
        }
        try:
            async with asyncio.timeout(self.timeout_seconds + _PATIENCE_SECONDS):
                return await AsyncConnection.connect(
                    host=self._config["host"],
                    port=self._config.get("port") or 5432,
                    dbname=self._config["dbname"],
                    user=user,
                    password=password,
                    sslmode=self._config.get("tls") or "verify-full",
                    sslrootcert=root,
                    application_name="countersign",
                    connect_timeout=max(2, int(self.timeout_seconds)),
                    options=" ".join(f"-c {name}={value}" for name, value in settings.items()),
                    passfile=os.devnull,
                    autocommit=True,
                    prepare_threshold=None,
                )
        except TimeoutError:
            raise ProviderError(f"no connection within {self.timeout_seconds:g} s") from None
        except psycopg.Error as problem:
            raise _refused_at_the_door(problem) from None

    @contextlib.contextmanager
    def _root(self) -> Any:
        """libpq reads authorities from files only."""
        pem = self._config.get("tls_root")
        if not pem:
            yield "system" if self._config.get("tls") in {None, "verify-full"} else ""
            return
        with tempfile.TemporaryDirectory(prefix="countersign-tls-") as folder:
            path = Path(folder) / "root.pem"
            path.write_text(pem)
            yield str(path)


class Line:
    """One connection. A transaction that fails leaves it unusable: open another."""

    def __init__(
        self, connection: AsyncConnection[Any], timeout_seconds: float, *, read_only: bool
    ) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        self._begin = "BEGIN ISOLATION LEVEL READ COMMITTED, READ " + (
            "ONLY" if read_only else "WRITE"
        )

    async def read(self, *statements: tuple[Any, Mapping[str, Any]]) -> list[list[Any]]:
        """The rows of each statement, all in one transaction and one round trip."""
        async with self._bounded(), self._connection.pipeline():
            await self._connection.execute(self._begin)
            cursors = [await self._connection.execute(*each) for each in statements]
            await self._connection.execute("COMMIT")
            return [await cursor.fetchall() for cursor in cursors]

    async def columns(self, statement: Any, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """What the statement's columns are called."""
        async with self._bounded():
            await self._connection.execute(self._begin)
            cursor = await self._connection.execute(statement, parameters)
            await self._connection.execute("COMMIT")
            return tuple(column.name for column in cursor.description or ())

    async def write_one(self, statement: Any, parameters: Mapping[str, Any]) -> bool:
        """Whether the statement wrote its one row, durably; raises ProviderError where it is not
        known to have been committed, or would have written more."""
        async with self._bounded():
            await self._connection.execute(self._begin)
            await self._connection.execute("SET LOCAL synchronous_commit = on")
            wrote = (await self._connection.execute(statement, parameters)).rowcount
            if wrote not in {0, 1}:
                raise ProviderError(f"the statement would write {wrote} rows", permanent=True)
            await self._connection.execute("COMMIT")
            return wrote == 1

    @contextlib.asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_seconds + _PATIENCE_SECONDS):
                yield
        except TimeoutError:
            raise ProviderError(f"no answer within {self._timeout_seconds:g} s") from None
        except psycopg.Error as problem:
            raise failure(problem) from None


def failure(problem: psycopg.Error) -> ProviderError:
    """Words a person can act on, and whether only a person helps."""
    code = problem.sqlstate or ""
    if code == "57014":
        return ProviderError("the statement took longer than its timeout")
    if code == "55P03":
        return ProviderError("a lock was held for longer than the timeout")
    if code.startswith("53"):
        return ProviderError("the server has no room for another connection or query")
    if code == "42501":
        return ProviderError(
            "permission denied: grant the role what the query reads", permanent=True
        )
    if code == "25006":
        return ProviderError(
            "the statement writes, and this transaction only reads", permanent=True
        )
    if code.startswith("42"):
        return ProviderError(f"Postgres does not accept the statement ({code})", permanent=True)
    if code.startswith(("22", "23")):
        return ProviderError(f"the statement fails on the data ({code})", permanent=True)
    if code:
        return ProviderError(f"Postgres gave the error {code}")
    return ProviderError(f"the connection failed ({type(problem).__name__})")


def _refused_at_the_door(problem: psycopg.Error) -> ProviderError:
    said = str(problem)
    for words, meaning, permanent in _AT_THE_DOOR:
        if words in said:
            return ProviderError(meaning, permanent=permanent)
    if "too many connections" in said or "remaining connection slots" in said:
        return ProviderError("the server has no room for another connection or query")
    if 'database "' in said and "does not exist" in said:
        return ProviderError("there is no such database", permanent=True)
    return failure(problem)
