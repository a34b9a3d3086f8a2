"""Class C: one pass over a list for many questions at once, and a search for one.

Neither is documented to be up to date, and both were seen behind by minutes and in an outage empty
for hours: a hit is read again by its number, and a miss proves nothing.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from reconcilers.evidence import CLOCK_SLACK, Look, Sighting, Way
from reconcilers.providers.asking import looked
from reconcilers.providers.base import ProviderError, Question
from reconcilers.providers.github.objects import (
    MARKER,
    OBJECTS,
    is_one,
    moment,
    sighting_of,
    texts_of,
)
from reconcilers.providers.github.reader import Repository

#: More hits than this for one marker are read no further: two already are a duplicate.
MOST_READ_AGAIN: Final = 5

#: Search has no way to quote these; a key with others is looked for in the list alone.
_SEARCHABLE: Final = re.compile(r"[A-Za-z0-9_.:/@+=-]+")


Done = Callable[[Question, Look], Awaitable[None]]


@dataclass
class _Pass:
    """What the pages read so far showed."""

    started_at: datetime
    hits: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    pages: int = 0
    rows: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    problem: ProviderError | None = None

    def take(self, kind: str, rows: Sequence[Any], raw: bytes, wanted: frozenset[str]) -> None:
        self.pages += 1
        self.rows += len(rows)
        self.digest.update(hashlib.sha256(raw).digest())
        for body in rows:
            if is_one(kind, body):
                marker = texts_of(kind, body).get(MARKER)
                if marker in wanted:
                    self.hits.setdefault(marker, []).append(body)

    def summary(self, marker: str) -> bytes:
        """What is ours word for word; of the rest, which is shared by all, a digest."""
        return json.dumps(
            {
                "pages": self.pages,
                "objects": self.rows,
                "pages_sha256": self.digest.hexdigest(),
                "ours": self.hits.get(marker, []),
            }
        ).encode()


async def by_list(
    repository: Repository,
    kind: str,
    way: Way,
    questions: Sequence[Question],
    *,
    account_seen: str,
    slots: asyncio.Semaphore,
    done: Done,
) -> None:
    """One pass over the list from the oldest question's start; `done` is called once for each."""
    state = _Pass(repository.gate.now())
    path = OBJECTS[kind].path
    begins_at = min(question.window_from for question in questions) - CLOCK_SLACK
    params: dict[str, str] = {}
    if kind == "issue":
        # Changed since: whatever was created since is among them.
        since = begins_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        params = {"state": "all", "sort": "created", "direction": "desc", "since": since}
    wanted = frozenset(question.marker for question in questions)
    listing = repository.pages(f"/repos/{repository.name}/{path}", params, endpoint=path)
    try:
        async with slots, aclosing(listing) as pages:
            async for rows, raw in pages:
                state.take(kind, rows, raw, wanted)
                if _is_behind(rows, begins_at):
                    break
    except ProviderError as problem:
        state.problem = problem

    async def conclude(question: Question) -> None:
        endpoint = f"GET /repos/{repository.name}/{path}"
        async with slots:
            look = await _look(repository, kind, way, question, state, endpoint, account_seen)
        await done(question, look)

    async with asyncio.TaskGroup() as group:
        for question in questions:
            group.create_task(conclude(question))


async def by_search(
    repository: Repository, kind: str, way: Way, question: Question, *, account_seen: str
) -> Look:
    """A look by search. What it shows is checked letter by letter; silence is silence."""
    state = _Pass(repository.gate.now())
    try:
        if not _SEARCHABLE.fullmatch(question.marker):
            raise ProviderError("this key has characters that search cannot quote", permanent=True)
        query = f'"{question.marker}" repo:{repository.name} in:body is:issue'
        listing = repository.pages(
            "/search/issues", {"q": query}, endpoint="search", member="items"
        )
        async for rows, raw in listing:
            state.take(kind, rows, raw, frozenset({question.marker}))
    except ProviderError as problem:
        state.problem = problem
    return await _look(repository, kind, way, question, state, "GET /search/issues", account_seen)


async def _look(
    repository: Repository,
    kind: str,
    way: Way,
    question: Question,
    state: _Pass,
    endpoint: str,
    account_seen: str,
) -> Look:
    """The question's look: every hit of the pass, read again by its number."""
    sightings: list[Sighting] = []
    answers = [state.summary(question.marker)] if state.pages else []
    problem = state.problem
    for hit in state.hits.get(question.marker, [])[:MOST_READ_AGAIN]:
        number = str(hit[OBJECTS[kind].number])
        again = await repository.read(kind, number)
        answers.extend(again.answers)
        if again.problem is not None:
            sightings.append(sighting_of(kind, hit, verified=False))
            problem = ProviderError(
                f"{way.name} shows {number}, which could not be read again: {again.problem}",
                retry_after_seconds=again.problem.retry_after_seconds,
            )
        elif again.seen is not None and again.seen.marker == question.marker:
            sightings.append(again.seen)
    return looked(
        way,
        sightings,
        problem,
        answers=answers,
        started_at=state.started_at,
        ended_at=repository.gate.now(),
        endpoint=endpoint,
        account_seen=account_seen,
        pages=state.pages,
        rows=state.rows,
    )


def _is_behind(rows: Sequence[Any], begins_at: datetime) -> bool:
    """Whether a page, newest first, lies wholly before the window."""
    times = [moment(row.get("created_at")) for row in rows if isinstance(row, dict)]
    return bool(times) and all(each is not None and each < begins_at for each in times)
