"""One repository's questions: by number where one is known, else one list for all of a kind."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from reconcilers.evidence import Look, Outcome, Way
from reconcilers.providers.asking import looked, refuse
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
from reconcilers.providers.github import windows
from reconcilers.providers.github.objects import OBJECTS, number_of
from reconcilers.providers.github.reader import Repository


class GitHubSession(Session):
    """Reads with one token. Every question is answered once, whatever fails."""

    def __init__(
        self,
        access: AccountAccess,
        gate: Gate,
        *,
        ways: Callable[[str], tuple[Way, ...]],
        concurrency: int,
    ) -> None:
        self._gate = gate
        self._ways = ways
        self._environment = access.environment
        self._expected = access.external_id
        self._repository = Repository(access, gate, concurrency=concurrency)
        self._slots = asyncio.Semaphore(concurrency)
        self._account = ""

    async def identify(self) -> Identity:
        """The repository's id. GitHub has no modes, so that the account's own is returned.

        Asked every time: a token loses its sight of a repository from one moment to the next.
        """
        self._account = await self._repository.repository_id()
        return Identity(account_id=self._account, mode=self._environment)

    async def close(self) -> None:
        """Close the connections."""
        await self._repository.close()

    async def ask(
        self, questions: Iterable[Question], known: Mapping[str, KnownObject], deliver: Deliver
    ) -> None:
        """Positive control first, which is that the repository is visible; then kind by kind."""
        kinds: dict[str, list[Question]] = {}
        for question in questions:
            kinds.setdefault(question.object_kind, []).append(question)
        try:
            await self._check()
        except ProviderError as problem:
            for kind, those in kinds.items():
                for question in those:
                    await deliver(refuse(self._ways(kind), question, problem, self._gate.now()))
            return
        async with asyncio.TaskGroup() as group:
            for kind, those in kinds.items():
                work = _Work(self._repository, self._slots, self._account, kind, self._ways(kind))
                group.create_task(work.run(those, deliver))

    async def _check(self) -> None:
        identity = await self.identify()
        if self._expected and identity.account_id != self._expected:
            raise ProviderError(
                f"{self._repository.name} is repository {identity.account_id}, and this account is"
                f" {self._expected}",
                permanent=True,
            )


class _Work:
    """One kind of object of one `ask`: by number, then by list, then by search."""

    def __init__(
        self,
        repository: Repository,
        slots: asyncio.Semaphore,
        account_seen: str,
        kind: str,
        ways: Sequence[Way],
    ) -> None:
        self._repository = repository
        self._slots = slots
        self._account = account_seen
        self._kind = kind
        self._all_ways = ways
        self._ways = {way.name: way for way in ways}
        self._looks: dict[UUID, list[Look]] = {}

    async def run(self, questions: Sequence[Question], deliver: Deliver) -> None:
        """Answer each question as soon as nothing more is to be asked for it."""
        self._looks = {each.operation_id: [] for each in questions}
        listed: list[Question] = []

        async def begin(question: Question) -> None:
            await self._get(question)
            looks = self._looks[question.operation_id]
            if _is_open(question, looks) and "list" in self._ways and question.allows("list"):
                listed.append(question)
            else:
                await finish(question)

        async def after_list(question: Question, look: Look) -> None:
            self._looks[question.operation_id].append(look)
            await finish(question)

        async def finish(question: Question) -> None:
            if _wants_search(question, self._looks[question.operation_id]):
                await self._search(question)
            await deliver(self._answer(question))

        async with asyncio.TaskGroup() as group:
            for question in questions:
                group.create_task(begin(question))
        if listed:
            await windows.by_list(
                self._repository,
                self._kind,
                self._ways["list"],
                listed,
                account_seen=self._account,
                slots=self._slots,
                done=after_list,
            )

    async def _get(self, question: Question) -> None:
        """Every known number; no look where none is known, or the tool does not allow it."""
        way, name = self._ways.get("get"), self._repository.name
        numbers: dict[str, str] = {}
        if way is None or not question.allows(way.name):
            return
        for reference in question.object_ids:
            number = number_of(reference, self._kind, name)
            if number is not None:
                numbers.setdefault(number, reference)
        if not numbers:
            return
        started_at = self._repository.gate.now()
        async with self._slots:
            reads = [
                await self._repository.read(self._kind, number, reported=reference)
                for number, reference in numbers.items()
            ]
        look = looked(
            way,
            [read.seen for read in reads if read.seen is not None],
            next((read.problem for read in reads if read.problem is not None), None),
            answers=[raw for read in reads for raw in read.answers],
            started_at=started_at,
            ended_at=self._repository.gate.now(),
            endpoint=f"GET /repos/{name}/{OBJECTS[self._kind].path}/{{number}}",
            account_seen=self._account,
        )
        self._looks[question.operation_id].append(look)

    async def _search(self, question: Question) -> None:
        way = self._ways.get("search")
        if way is None:
            return
        async with self._slots:
            look = await windows.by_search(
                self._repository, self._kind, way, question, account_seen=self._account
            )
        self._looks[question.operation_id].append(look)

    def _answer(self, question: Question) -> Answer:
        looks = self._looks.pop(question.operation_id)
        if looks:
            return Answer(operation_id=question.operation_id, looks=tuple(looks))
        problem = ProviderError(
            f"none of the allowed look-ups can find a {question.object_kind}", permanent=True
        )
        return refuse(self._all_ways, question, problem, self._repository.gate.now())


def _is_open(question: Question, looks: Sequence[Look]) -> bool:
    """Whether the known numbers did not settle it, or every effect is to be counted."""
    settled = any(look.outcome in {Outcome.HIT, Outcome.PENDING} for look in looks)
    return not settled or question.count_effects


def _wants_search(question: Question, looks: Sequence[Look]) -> bool:
    """Search costs most: only where the list is not allowed, or could not be read."""
    listed = any(look.lookup == "list" and look.finished for look in looks)
    return question.allows("search") and not listed and _is_open(question, looks)
