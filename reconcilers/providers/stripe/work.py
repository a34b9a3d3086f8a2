"""Which look answers which question, the cheapest first.

By id where an id is known; else one list window for all of them. Search and events stand in where
the tool allows no list, or the key may not read it (reads are a budget: 500 per transaction);
events also tell of what can be deleted, which no list shows any more.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from reconcilers.evidence import Look, Outcome
from reconcilers.providers.base import Answer, Deliver, KnownObject, ProviderError, Question
from reconcilers.providers.stripe import events, scopes, singles, windows
from reconcilers.providers.stripe.objects import OBJECTS
from reconcilers.providers.stripe.reader import Missing, Reader
from reconcilers.providers.stripe.refusals import could_not, void, why_nothing
from reconcilers.providers.stripe.scopes import Scope

_FOUND = frozenset({Outcome.HIT, Outcome.PENDING})


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What every look of one `ask` needs."""

    reader: Reader
    slots: asyncio.Semaphore
    account_seen: str
    account_unknown: str
    known: Mapping[str, KnownObject]
    grouped: bool

    def is_settled(self, question: Question) -> bool:
        """Whether an empty answer could count by now."""
        return question.settles_at is not None and question.settles_at <= self.reader.gate.now()


class Work:
    """One `ask`: the looks gathered so far for each question."""

    def __init__(self, asking: Asking, deliver: Deliver) -> None:
        self._asking = asking
        self._reader = asking.reader
        self._deliver = deliver
        self._looks: dict[UUID, list[Look]] = {}
        self._doubts: dict[str, ProviderError | None] = {}

    async def run(self, questions: Sequence[Question]) -> None:
        """Answer them all, those by id beside the others."""
        by_id: list[Question] = []
        others: list[Question] = []
        for question in questions:
            has_id = question.allows("get") and bool(singles.readable_ids(question))
            (by_id if has_id else others).append(question)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._without_id(others))
            group.create_task(self._by_id(by_id))

    async def _by_id(self, questions: Sequence[Question]) -> None:
        """Those that an id did not settle go on to the list together."""
        looks = await asyncio.gather(*(self._get(question) for question in questions))
        open_questions = []
        for question, look in zip(questions, looks, strict=True):
            if look.outcome in _FOUND and not question.count_effects:
                await self._finish(question)
            else:
                open_questions.append(question)
        await self._without_id(open_questions)

    async def _get(self, question: Question) -> Look:
        async with self._asking.slots:
            look = await singles.look_by_id(self._reader, question, self._asking.account_seen)
        self._note(question, look)
        return look

    async def _without_id(self, questions: Sequence[Question]) -> None:
        kinds: dict[str, list[Question]] = {}
        for question in questions:
            kinds.setdefault(question.object_kind, []).append(question)
        async with asyncio.TaskGroup() as group:
            for kind, those in kinds.items():
                group.create_task(self._of_kind(kind, those))

    async def _of_kind(self, kind: str, questions: Sequence[Question]) -> None:
        if kind not in OBJECTS:
            await asyncio.gather(*(self._finish(question) for question in questions))
            return
        listed = [question for question in questions if question.allows("list")]
        rest = [question for question in questions if not question.allows("list")]
        if listed:
            rest += await self._list(kind, listed)
        rest = await self._search(rest)
        await self._events(kind, rest)

    async def _list(self, kind: str, questions: Sequence[Question]) -> list[Question]:
        """Those that are left for search and events, because the list does not show them."""
        passed, self._doubts[kind] = await self._control(kind, questions)
        wide: list[Question] = []
        left: list[Question] = []
        for question in questions:
            scope = scopes.narrow(question, grouped=self._asking.grouped)
            if scope is None:
                wide.append(question)
                continue
            (look,) = await self._window(kind, [question], scope, passed)
            self._note(question, look)
            if look.outcome in _FOUND and not (question.count_effects and not scope.exhaustive):
                await self._finish(question)
            elif scope.exhaustive:
                await self._listed(question, look, left)
            else:
                wide.append(question)
        if wide:
            await self._wide(kind, wide, passed, left)
        return left

    async def _wide(
        self, kind: str, questions: Sequence[Question], passed: bool, left: list[Question]
    ) -> None:
        """One window for all; before an empty one counts, what it leaves out is read too."""
        held: list[tuple[Question, Look]] = []
        hides_some = scopes.hides_some(self._reader, kind)

        async def done(question: Question, look: Look) -> None:
            empty = look.outcome is Outcome.EMPTY
            if hides_some and empty and self._asking.is_settled(question):
                held.append((question, look))
                return
            self._note(question, look)
            await self._listed(question, look, left)

        async with self._asking.slots:
            await windows.read_window(
                self._reader,
                kind,
                questions,
                control_passed=passed,
                account_seen=self._asking.account_seen,
                done=done,
            )
        if held:
            for question, look in await self._under_clocks(kind, held, passed):
                self._note(question, look)
                await self._listed(question, look, left)

    async def _under_clocks(
        self, kind: str, held: Sequence[tuple[Question, Look]], passed: bool
    ) -> list[tuple[Question, Look]]:
        """The same looks, or hits under a test clock, or why the empty ones mean nothing."""
        try:
            hidden = await scopes.under_clocks(self._reader, kind)
        except ProviderError as problem:
            return [(question, void(look, problem)) for question, look in held]
        looks = {question.operation_id: look for question, look in held}
        questions = [question for question, _ in held]
        for scope in hidden:
            more = await self._window(kind, questions, scope, passed)
            for question, look in zip(questions, more, strict=True):
                if look.outcome in _FOUND or (
                    not look.finished and looks[question.operation_id].outcome is Outcome.EMPTY
                ):
                    looks[question.operation_id] = look
        return [(question, looks[question.operation_id]) for question in questions]

    async def _window(
        self, kind: str, questions: Sequence[Question], scope: Scope, passed: bool
    ) -> list[Look]:
        found: dict[UUID, Look] = {}

        async def done(question: Question, look: Look) -> None:
            found[question.operation_id] = look

        async with self._asking.slots:
            await windows.read_window(
                self._reader,
                kind,
                questions,
                scope=scope,
                control_passed=passed,
                account_seen=self._asking.account_seen,
                done=done,
            )
        return [found[question.operation_id] for question in questions]

    async def _listed(self, question: Question, look: Look, left: list[Question]) -> None:
        """Is the list's answer the last word?"""
        may_be_gone = look.outcome is Outcome.EMPTY and OBJECTS[question.object_kind].deletable
        # Where all of Stripe fails, another address fails as well, and costs a read.
        forbidden = look.outcome is Outcome.CANNOT_LOOK and look.permanent
        if forbidden or (may_be_gone and self._asking.is_settled(question)):
            left.append(question)
        else:
            await self._finish(question)

    async def _control(
        self, kind: str, questions: Sequence[Question]
    ) -> tuple[bool, ProviderError | None]:
        """Positive control, made only where an empty answer could count by now."""
        # What can be deleted is no control: it may be gone for good reasons.
        known = None if OBJECTS[kind].deletable else self._asking.known.get(kind)
        if not any(self._asking.is_settled(question) for question in questions):
            return False, None
        if known is None:
            return not self._asking.account_unknown, None
        try:
            visible = await windows.is_visible(self._reader, known)
        except (ProviderError, Missing):
            return False, None
        if not visible:
            return False, ProviderError(
                f"an earlier object of ours, {known.id}, is not visible in this list, so an empty"
                " answer would mean nothing"
            )
        return True, None

    async def _search(self, questions: Sequence[Question]) -> list[Question]:
        """Those that search did not find."""
        return [
            question
            for question, found in zip(
                questions,
                await asyncio.gather(*(self._search_one(question) for question in questions)),
                strict=True,
            )
            if not found
        ]

    async def _search_one(self, question: Question) -> bool:
        if not (OBJECTS[question.object_kind].searchable and question.allows("search")):
            return False
        async with self._asking.slots:
            look = await singles.look_by_search(self._reader, question, self._asking.account_seen)
        self._note(question, look)
        if look.outcome in _FOUND:
            await self._finish(question)
        return look.outcome in _FOUND

    async def _events(self, kind: str, questions: Sequence[Question]) -> None:
        asked = [question for question in questions if question.allows("events")]
        for question in questions:
            if question not in asked:
                await self._finish(question)
        if not asked:
            return

        async def done(question: Question, look: Look) -> None:
            self._note(question, look)
            await self._finish(question)

        async with self._asking.slots:
            await events.read_events(
                self._reader, kind, asked, account_seen=self._asking.account_seen, done=done
            )

    def _note(self, question: Question, look: Look) -> None:
        """Keep it; where the positive control failed an empty list is none, and a hit is one."""
        doubt = self._doubts.get(question.object_kind)
        if doubt is not None and look.lookup == "list" and look.outcome is Outcome.EMPTY:
            look = void(look, doubt)
        self._looks.setdefault(question.operation_id, []).append(look)

    async def _finish(self, question: Question) -> None:
        looks = self._looks.pop(question.operation_id, [])
        if not looks:
            problem = ProviderError(why_nothing(question), permanent=True)
            looks = [could_not(self._reader, question, problem)]
        await self._deliver(Answer(operation_id=question.operation_id, looks=tuple(looks)))
