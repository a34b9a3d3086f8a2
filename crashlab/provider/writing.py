"""From a write to its answer: faults in front, the key, execution in one commit, faults behind."""

import asyncio
import sqlite3
from collections.abc import Callable

from crashlab.provider import forms, idempotency, plain
from crashlab.provider.answers import Outcome, key_in_use, server_error
from crashlab.provider.book import Book
from crashlab.provider.endpoints import Execute, endpoint
from crashlab.provider.shelf import Call, Shelf, setting


class Writer:
    """Executes writes. `on_events` is told of each commit's events and of due work."""

    def __init__(self, book: Book, committed: Callable[[Shelf], None]) -> None:
        self._book = book
        self._committed = committed
        self._executing: set[tuple[str, bool, str]] = set()
        self._awaited: dict[int, asyncio.Future[Outcome]] = {}

    async def answer(self, call: Call) -> tuple[Outcome, dict[str, str]]:
        """The answer and its headers. What is raised (Refused) was kept under no key."""
        check, execute = endpoint(call.method, call.path)
        kind = plain.ENDPOINTS[call.path][0] if call.path in plain.ENDPOINTS else "stripe"
        honours = setting(self._book.reader, f"{kind}_honours_keys", plain.HONOUR_KEYS[kind])
        if not honours or not call.idem_key:
            check(call.params)
            return await self._first(call, execute, None), {}
        scope = (call.account.id, call.account.livemode, call.idem_key)
        digest = forms.digest(call.method, call.path, call.params)
        if scope in self._executing or call.fault.key_in_use:
            raise key_in_use()
        self._executing.add(scope)
        try:
            if call.fault.prune_key:
                await self._book.write(lambda connection: idempotency.forget(connection, call))
            replay = idempotency.recall(self._book.reader, call, digest)
            if replay is None:
                check(call.params)
                return await self._first(call, execute, digest), {}
            await self._book.write(lambda connection: idempotency.count_arrival(connection, call))
        finally:
            self._executing.discard(scope)
        headers = {"Idempotent-Replayed": "true", "Original-Request": replay.request_id}
        return replay.outcome, headers

    async def _first(self, call: Call, execute: Execute, digest: str | None) -> Outcome:
        seconds = call.fault.commit_after_seconds
        if seconds is None:
            return await self.commit(call, execute, digest)
        seq, shelf = await self._book.write(
            lambda connection: _promise(connection, call, digest, seconds)
        )
        if call.fault.drop is None:
            # The answer leaves after the late commit, should anybody still listen.
            self._awaited[seq] = asyncio.get_running_loop().create_future()
        self._committed(shelf)
        return await self._awaited[seq] if seq in self._awaited else server_error()

    def executed_late(self, seq: int, outcome: Outcome) -> None:
        """The due work `seq` was done: lets the request answer that waited for it."""
        waiting = self._awaited.pop(seq, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)

    async def commit(self, call: Call, execute: Execute, digest: str | None) -> Outcome:
        """Effect, object, events and kept answer, in one commit."""

        def work(connection: sqlite3.Connection) -> tuple[Shelf, Outcome]:
            shelf = Shelf(connection, call)
            outcome = self._executed(shelf, execute)
            if digest is not None:
                idempotency.keep(connection, call, digest, outcome)
            return shelf, outcome

        shelf, outcome = await self._book.write(work)
        self._committed(shelf)
        return outcome

    def _executed(self, shelf: Shelf, execute: Execute) -> Outcome:
        mode = shelf.call.fault.error_500
        if mode is None:
            return execute(shelf, shelf.call.params)
        if mode == "now":
            execute(shelf, shelf.call.params)
        elif mode == "later":
            data = {"call": shelf.call.document()}
            shelf.later(shelf.call.fault.later_seconds, "roll_forward", data)
        return server_error()


def _promise(
    connection: sqlite3.Connection, call: Call, digest: str | None, seconds: float
) -> tuple[int, Shelf]:
    shelf = Shelf(connection, call)
    if digest is not None:
        idempotency.keep(connection, call, digest, None)
    return shelf.later(seconds, "commit", {"call": call.document(), "digest": digest}), shelf
