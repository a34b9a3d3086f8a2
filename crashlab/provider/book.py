"""The durable book: objects, effects, keys, events and work that is due, in one SQLite file.

Everything that a client was told, or that happened without the client being told, is committed
(`synchronous=FULL`) before the answer leaves, so a SIGKILL of this process loses nothing.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS object (
    seq INTEGER PRIMARY KEY, id TEXT UNIQUE, account TEXT, livemode INTEGER, kind TEXT,
    created INTEGER, searchable_at REAL, body TEXT);
CREATE INDEX IF NOT EXISTS object_newest_first ON object (account, livemode, kind, seq);
CREATE INDEX IF NOT EXISTS object_by_marker
    ON object (json_extract(body, '$.metadata.idem_key'));
CREATE TABLE IF NOT EXISTS effect (
    seq INTEGER PRIMARY KEY, kind TEXT, object_id TEXT, account TEXT, livemode INTEGER,
    marker TEXT, idem_key TEXT, intent TEXT, amount INTEGER, currency TEXT, details TEXT,
    request_id TEXT, at REAL);
CREATE INDEX IF NOT EXISTS effect_by_intent ON effect (intent);
CREATE TABLE IF NOT EXISTS saved_answer (
    account TEXT, livemode INTEGER, idem_key TEXT, digest TEXT, endpoint TEXT, request_id TEXT,
    created_at REAL, status INTEGER, body TEXT, arrivals INTEGER DEFAULT 1,
    PRIMARY KEY (account, livemode, idem_key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS due_work (
    seq INTEGER PRIMARY KEY, due_at REAL, kind TEXT, data TEXT);
CREATE TABLE IF NOT EXISTS buried (
    id TEXT PRIMARY KEY, account TEXT, livemode INTEGER, kind TEXT, body TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rule (seq INTEGER PRIMARY KEY, document TEXT);
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""
_BATCH = 64


class Book:
    """One writer thread that commits waiting work together; reads on the event loop's thread."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "book.sqlite3"
        self.reader = self._connect()
        self.reader.executescript(_SCHEMA)
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_for_ever, daemon=True)
        self._thread.start()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA busy_timeout=10000")
        return connection

    async def write[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in a transaction; returns its value once that is on disk.

        What `work` raises is raised here, and nothing of it is kept.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.put(_Work(work, loop, future))
        return await asyncio.shield(future)

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()
        self.reader.close()

    def _write_for_ever(self) -> None:
        connection = self._connect()
        while True:
            first = self._waiting.get()
            if first is None:
                connection.close()
                return
            batch = [first]
            while len(batch) < _BATCH and not self._waiting.empty():
                more = self._waiting.get()
                if more is None:
                    self._waiting.put(None)
                    break
                batch.append(more)
            self._commit(connection, batch)

    def _commit(self, connection: sqlite3.Connection, batch: list["_Work"]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for item in batch:
            connection.execute("SAVEPOINT one")
            try:
                item.value = item.work(connection)
            except Exception as error:  # noqa: BLE001 (raised again where it was asked for)
                item.error = error
                connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
        connection.execute("COMMIT")
        for item in batch:
            item.loop.call_soon_threadsafe(item.finish)


class _Work:
    def __init__(
        self,
        work: Callable[[sqlite3.Connection], Any],
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
    ) -> None:
        self.work = work
        self.loop = loop
        self.future = future
        self.value: Any = None
        self.error: Exception | None = None

    def finish(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)
