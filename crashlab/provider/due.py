"""Work that comes due: late commits, 500s rolled forward, payments that settle, refunds that fail.

It stands in the book, so a provider that was killed meanwhile does it after its restart.
"""

import asyncio
import functools
import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crashlab.provider import idempotency, payment_intents, resources
from crashlab.provider.answers import Outcome, Refused
from crashlab.provider.book import Book
from crashlab.provider.endpoints import endpoint
from crashlab.provider.shelf import Call, Shelf


class DueWork:
    def __init__(
        self,
        book: Book,
        committed: Callable[[Shelf], None],
        executed_late: Callable[[int, Outcome], None],
    ) -> None:
        self._book = book
        self._committed = committed
        self._executed_late = executed_late
        self._wake = asyncio.Event()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Does what is due, for ever; sleeps until the next item or until woken."""
        while True:
            self._wake.clear()
            row = self._book.reader.execute(
                "SELECT seq, due_at FROM due_work ORDER BY due_at LIMIT 1"
            ).fetchone()
            pause = row["due_at"] - time.time() if row else 60
            if pause <= 0:
                seq = row["seq"]
                done = await self._book.write(functools.partial(_do, seq=seq))
                if done is not None:
                    shelf, outcome = done
                    self._committed(shelf)
                    self._executed_late(seq, outcome)
                continue
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                pass


def _do(connection: sqlite3.Connection, seq: int) -> tuple[Shelf, Outcome] | None:
    row = connection.execute("SELECT * FROM due_work WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        return None
    connection.execute("DELETE FROM due_work WHERE seq = ?", (seq,))
    data: dict[str, Any] = json.loads(row["data"])
    call = Call.restore(data["call"])
    # What made it late must not make it late again; how it ends (declined, processing) still holds.
    call = replace(call, fault=replace(call.fault, commit_after_seconds=None, error_500=None))
    shelf = Shelf(connection, call)
    outcome = Outcome(200, {})
    if row["kind"] == "finish":
        payment_intents.finish(shelf, data["id"], data["then"])
    elif row["kind"] == "settle":
        resources.settle(shelf, data["kind"], data["id"], data["status"])
    else:
        outcome = _execute(shelf, data.get("digest"))
    return shelf, outcome


def _execute(shelf: Shelf, digest: str | None) -> Outcome:
    """Executes the call; with a digest, its key keeps the answer. (A 500 that is rolled forward
    has none here: its kept answer never changes.)"""
    _, execute = endpoint(shelf.call.method, shelf.call.path)
    try:
        outcome = execute(shelf, shelf.call.params)
    except Refused as refused:
        # What it names is gone meanwhile: nothing happened, and the key is free again.
        if digest is not None:
            idempotency.forget(shelf.connection, shelf.call)
        return Outcome(refused.status, refused.body)
    if digest is not None:
        idempotency.keep(shelf.connection, shelf.call, digest, outcome)
    return outcome
