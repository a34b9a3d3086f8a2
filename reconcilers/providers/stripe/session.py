"""One account's questions, by the cheapest look that can answer each.

By id where an id is known; else one list window for all of them; search only where the tool
allows no list or the list could not be read (reads are a budget: 500 per transaction).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

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
from reconcilers.providers.stripe import singles, windows
from reconcilers.providers.stripe.objects import OBJECTS
from reconcilers.providers.stripe.reader import Missing, Reader


class StripeSession(Session):
    """Reads with one key. Every question is answered once, whatever fails."""

    def __init__(self, access: AccountAccess, gate: Gate, *, concurrency: int) -> None:
        self._expected = access.external_id
        self._connected = str(access.config.get("connected_account") or "")
        self._reader = Reader(access, gate, concurrency=concurrency)
        self._slots = asyncio.Semaphore(concurrency)
        self._identity: Identity | None = None

    async def identify(self) -> Identity:
        """The account behind the key, asked once; its mode is the key's own prefix."""
        if self._identity is None:
            try:
                page = await self._reader.get("account", {}, endpoint="account")
            except Missing:
                raise ProviderError("404, the account cannot be read", status=404) from None
            account_id = page.body.get("id")
            if not isinstance(account_id, str) or not account_id:
                raise ProviderError("the account's answer names no account")
            self._identity = Identity(account_id=account_id, mode=self._reader.mode)
        return self._identity

    async def close(self) -> None:
        """Close the connections."""
        await self._reader.close()

    async def ask(
        self, questions: Iterable[Question], known: Mapping[str, KnownObject], deliver: Deliver
    ) -> None:
        """Look for all of them; the account's identity is checked before anything counts."""
        asked = list(questions)
        try:
            seen, note = await self._check_identity()
        except ProviderError as problem:
            await self._refuse(asked, problem, deliver)
            return
        work = _Work(self._reader, self._slots, seen, note, known, deliver)
        await work.run(asked)

    async def _check_identity(self) -> tuple[str, str]:
        """(account id, why it is not known); raises where it is known to be another's."""
        try:
            identity = await self.identify()
        except ProviderError as problem:
            if problem.status != 403:
                raise
            # A restricted key need not read the account; a known object may stand in for it.
            return "", str(problem)
        expected = self._connected or self._expected
        if expected and identity.account_id != expected:
            raise ProviderError(
                f"the key opens {identity.account_id}, and this account is {expected}",
                permanent=True,
            )
        return identity.account_id, ""

    async def _refuse(
        self, questions: Sequence[Question], problem: ProviderError, deliver: Deliver
    ) -> None:
        for question in questions:
            look = _could_not(self._reader, question, problem)
            await deliver(Answer(operation_id=question.operation_id, looks=(look,)))


class _Work:
    """One `ask`: the looks gathered so far for each question."""

    def __init__(
        self,
        reader: Reader,
        slots: asyncio.Semaphore,
        account_seen: str,
        account_unknown: str,
        known: Mapping[str, KnownObject],
        deliver: Deliver,
    ) -> None:
        self._reader = reader
        self._slots = slots
        self._account_seen = account_seen
        self._account_unknown = account_unknown
        self._known = known
        self._deliver = deliver
        self._looks: dict[UUID, list[Look]] = {}

    async def run(self, questions: Sequence[Question]) -> None:
        by_id: list[Question] = []
        by_list: list[Question] = []
        for question in questions:
            has_id = question.allows("get") and bool(singles.readable_ids(question))
            (by_id if has_id else by_list).append(question)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._by_list_or_search(by_list))
            group.create_task(self._by_id(by_id))

    async def _by_id(self, questions: Sequence[Question]) -> None:
        """Those that an id did not settle go on to the list together."""
        looks = await asyncio.gather(*(self._get(question) for question in questions))
        open_questions = []
        for question, look in zip(questions, looks, strict=True):
            settled = look.outcome in {Outcome.HIT, Outcome.PENDING} and not question.count_effects
            if settled:
                await self._finish(question)
            else:
                open_questions.append(question)
        await self._by_list_or_search(open_questions)

    async def _get(self, question: Question) -> Look:
        async with self._slots:
            look = await singles.look_by_id(self._reader, question, self._account_seen)
        self._note(question, look)
        return look

    async def _by_list_or_search(self, questions: Sequence[Question]) -> None:
        kinds: dict[str, list[Question]] = {}
        others: list[Question] = []
        for question in questions:
            listed = question.object_kind in OBJECTS and question.allows("list")
            (kinds.setdefault(question.object_kind, []) if listed else others).append(question)
        async with asyncio.TaskGroup() as group:
            for kind, those in kinds.items():
                group.create_task(self._list(kind, those))
            for question in others:
                group.create_task(self._search(question))

    async def _list(self, kind: str, questions: Sequence[Question]) -> None:
        passed, refusal = await self._control(kind, questions)
        if refusal is not None:
            for question in questions:
                look = _could_not(self._reader, question, refusal, lookup="list")
                self._note(question, look)
                await self._finish(question)
            return

        async def done(question: Question, look: Look) -> None:
            self._note(question, look)
            if look.outcome is Outcome.CANNOT_LOOK and self._searchable(question):
                searches.append(question)
            else:
                await self._finish(question)

        searches: list[Question] = []
        async with self._slots:
            await windows.read_window(
                self._reader,
                kind,
                questions,
                control_passed=passed,
                account_seen=self._account_seen,
                done=done,
            )
        await asyncio.gather(*(self._search(question) for question in searches))

    async def _control(
        self, kind: str, questions: Sequence[Question]
    ) -> tuple[bool, ProviderError | None]:
        """Positive control, made only where an empty answer could count by now."""
        now = self._reader.gate.now()
        counts = any(
            question.settles_at is not None and question.settles_at <= now for question in questions
        )
        known = self._known.get(kind)
        if not counts:
            return False, None
        if known is None:
            return not self._account_unknown, None
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

    def _searchable(self, question: Question) -> bool:
        described = OBJECTS.get(question.object_kind)
        return described is not None and described.searchable and question.allows("search")

    async def _search(self, question: Question) -> None:
        if self._searchable(question):
            async with self._slots:
                look = await singles.look_by_search(self._reader, question, self._account_seen)
            self._note(question, look)
        await self._finish(question)

    def _note(self, question: Question, look: Look) -> None:
        self._looks.setdefault(question.operation_id, []).append(look)

    async def _finish(self, question: Question) -> None:
        looks = self._looks.pop(question.operation_id, [])
        if not looks:
            problem = ProviderError(
                f"none of the allowed look-ups can find a {question.object_kind}", permanent=True
            )
            looks = [_could_not(self._reader, question, problem)]
        await self._deliver(Answer(operation_id=question.operation_id, looks=tuple(looks)))


def _could_not(
    reader: Reader, question: Question, problem: ProviderError, *, lookup: str = ""
) -> Look:
    """A look that could not look, filed under the first look-up that it would have used."""
    if not lookup:
        lookup = "list" if question.allows("list") else "search"
    now = reader.gate.now()
    return Look(
        lookup=lookup,
        lookup_class="B" if lookup == "list" else "C",
        outcome=Outcome.CANNOT_LOOK,
        started_at=now,
        ended_at=now,
        reason=str(problem),
        retry_after_seconds=problem.retry_after_seconds,
        permanent=problem.permanent,
        mode=reader.mode,
    )
