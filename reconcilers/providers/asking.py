"""What sessions without a shared list have in common: each question is asked by itself.

The account is checked first; where that fails, every question gets a look that could not look.
"""

import asyncio
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from reconcilers.evidence import Look, Outcome, Sighting, Stage, Way
from reconcilers.providers.base import (
    Answer,
    Deliver,
    Gate,
    KnownObject,
    ProviderError,
    Question,
    Session,
)


def could_not(way: Way, problem: ProviderError, now: datetime, **facts: Any) -> Look:
    """A look of this way that could not look; `facts` are further members of `Look`."""
    known: dict[str, Any] = {
        "lookup": way.name,
        "lookup_class": way.lookup_class,
        "outcome": Outcome.CANNOT_LOOK,
        "started_at": now,
        "ended_at": now,
        "reason": str(problem),
        "retry_after_seconds": problem.retry_after_seconds,
        "permanent": problem.permanent,
    }
    return Look(**known | facts)


def looked(
    way: Way,
    sightings: Sequence[Sighting],
    problem: ProviderError | None,
    *,
    answers: Sequence[bytes],
    **facts: Any,
) -> Look:
    """A look with what it saw: one verified object beats whatever else went wrong.

    `answers` are the raw answers; `facts` are further members of `Look`, both times among them.
    """
    verified = [seen for seen in sightings if seen.verified]
    if verified:
        open_effects = any(seen.stage is Stage.IN_FLIGHT for seen in verified)
        outcome = Outcome.PENDING if open_effects else Outcome.HIT
    else:
        outcome = Outcome.CANNOT_LOOK if problem or sightings else Outcome.EMPTY
    failed = problem if outcome is Outcome.CANNOT_LOOK else None
    known: dict[str, Any] = {
        "lookup": way.name,
        "lookup_class": way.lookup_class,
        "outcome": outcome,
        "reason": str(failed) if failed else "",
        "retry_after_seconds": problem.retry_after_seconds if problem else None,
        "permanent": failed.permanent if failed else False,
        "rows": len(sightings),
        "pages": len(answers),
        "complete": problem is None and outcome is not Outcome.CANNOT_LOOK,
        "exhaustive": way.exhaustive,
        "sightings": tuple(sightings),
        "answer": _joined(answers),
    }
    if outcome is Outcome.CANNOT_LOOK:
        facts["control_passed"] = False
    return Look(**known | facts)


def refuse(
    ways: Sequence[Way], question: Question, problem: ProviderError, now: datetime
) -> Answer:
    """The answer to a question that could not be asked, filed under the way it would have used."""
    allowed = [way for way in ways if question.allows(way.name)]
    way = (allowed or [Way(name="look", lookup_class="N", words="")])[-1]
    return Answer(operation_id=question.operation_id, looks=(could_not(way, problem, now),))


class OneByOne(Session):
    """Asks about every question on its own, some at a time."""

    def __init__(self, gate: Gate, *, concurrency: int) -> None:
        self._gate = gate
        self._slots = asyncio.Semaphore(concurrency)

    @abstractmethod
    async def check(self, known: Mapping[str, KnownObject]) -> None:
        """Whether the credentials open the account that was meant; raises ProviderError."""

    @abstractmethod
    def ways(self, question: Question) -> tuple[Way, ...]:
        """The ways there are for this question's kind of object."""

    @abstractmethod
    async def look_for(self, question: Question) -> list[Look]:
        """Every look for one question, oldest first; none where no allowed way applies."""

    async def ask(
        self, questions: Iterable[Question], known: Mapping[str, KnownObject], deliver: Deliver
    ) -> None:
        """Check the account, then look for each question."""
        asked = list(questions)
        try:
            await self.check(known)
        except ProviderError as problem:
            now = self._gate.now()
            for question in asked:
                await deliver(refuse(self.ways(question), question, problem, now))
            return
        async with asyncio.TaskGroup() as group:
            for question in asked:
                group.create_task(self._answer(question, deliver))

    async def _answer(self, question: Question, deliver: Deliver) -> None:
        async with self._slots:
            looks = await self.look_for(question)
        if looks:
            answer = Answer(operation_id=question.operation_id, looks=tuple(looks))
        else:
            problem = ProviderError(
                f"none of the allowed look-ups can find a {question.object_kind}", permanent=True
            )
            answer = refuse(self.ways(question), question, problem, self._gate.now())
        await deliver(answer)


def _joined(answers: Sequence[bytes]) -> bytes | None:
    """One answer as it came, several as a JSON array of them."""
    if len(answers) < 2:
        return answers[0] if answers else None
    return json.dumps([each.decode("utf-8", "replace") for each in answers]).encode()
