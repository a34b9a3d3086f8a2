"""One account's questions, over a few connections that last no longer than one `ask`."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping

from reconcilers.evidence import Look, Outcome
from reconcilers.providers.base import (
    AccountAccess,
    Answer,
    Deliver,
    Gate,
    Identity,
    KnownObject,
    ProviderError,
    Question,
    Session,
)
from reconcilers.providers.sql.connecting import Line, Lines
from reconcilers.providers.sql.looking import Looker, Placed

_ENDPOINT = "query"


class SqlSession(Session):
    """Reads with one role; takes tombstones with another, where a question allows it."""

    def __init__(self, access: AccountAccess, gate: Gate, *, connections: int) -> None:
        self._gate = gate
        self._connections = connections
        self._has_tombstone = bool(access.config.get("tombstone"))
        self._lines = Lines(access.config, access.secrets)
        self._looker = Looker(access, gate, self._lines)

    async def identify(self) -> Identity:
        """The cluster's system identifier and the database's name."""
        async with self._told(), self._lines.reader() as line:
            return await self._looker.identify(line)

    async def close(self) -> None:
        """Nothing stays open between two `ask`s."""

    async def ask(
        self, questions: Iterable[Question], known: Mapping[str, KnownObject], deliver: Deliver
    ) -> None:
        """Place the account once, then share the questions among the connections."""
        waiting = deque(questions)
        if not waiting:
            return
        try:
            async with self._told(), self._lines.reader() as line:
                await self._gate.turn(_ENDPOINT)
                placed = await self._looker.place(line, waiting[0], known.get("row"))
        except ProviderError as problem:
            await self._refuse(waiting, problem, deliver)
            return
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._connections, len(waiting))):
                group.create_task(self._work(waiting, placed, deliver))

    async def _work(self, waiting: deque[Question], placed: Placed, deliver: Deliver) -> None:
        """Serve questions until none waits; a line that has failed is replaced."""
        while waiting:
            try:
                async with self._told(), self._lines.reader() as line:
                    while waiting and await self._serve(waiting.popleft(), line, placed, deliver):
                        pass
            except ProviderError as problem:
                await self._refuse(waiting, problem, deliver)

    async def _serve(
        self, question: Question, line: Line, placed: Placed, deliver: Deliver
    ) -> bool:
        """Answer one question; False where the line cannot be used again."""
        looks: list[Look] = []
        fine = True
        lookup = "row"
        try:
            async with self._told():
                if question.object_kind != "row":
                    raise ProviderError(f"{question.object_kind} is no row", permanent=True)
                await self._gate.turn(_ENDPOINT)
                look, buried = await self._looker.by_row(line, placed, question)
                looks.append(look)
                if look.outcome is Outcome.EMPTY and not buried and self._may_bury(question):
                    lookup = "tombstone"
                    await self._gate.turn(_ENDPOINT)
                    looks.append(await self._looker.by_tombstone(line, placed, question))
                elif buried and self._may_bury(question):
                    looks.append(self._looker.by_lying_tombstone(look))
        except ProviderError as problem:
            looks.append(self._looker.could_not(question, problem, lookup=lookup))
            fine = False
        else:
            await self._gate.answered(_ENDPOINT)
        await deliver(Answer(operation_id=question.operation_id, looks=tuple(looks)))
        return fine

    def _may_bury(self, question: Question) -> bool:
        """A tombstone is a write that nobody can take back: the account has one, the tool names
        it, and nobody wants the call any more."""
        return self._has_tombstone and "tombstone" in question.lookups and not question.wanted

    async def _refuse(
        self, waiting: deque[Question], problem: ProviderError, deliver: Deliver
    ) -> None:
        while waiting:
            question = waiting.popleft()
            look = self._looker.could_not(question, problem)
            await deliver(Answer(operation_id=question.operation_id, looks=(look,)))

    def _told(self) -> "_Told":
        return _Told(self._gate)


class _Told:
    """Tells the gate of failures that say that the database is away, and of no others."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __aenter__(self) -> None:
        return

    async def __aexit__(self, kind: object, problem: object, trace: object) -> None:
        if isinstance(problem, ProviderError):
            if problem.permanent:
                await self._gate.answered(_ENDPOINT)
            else:
                await self._gate.failed(_ENDPOINT, problem)
