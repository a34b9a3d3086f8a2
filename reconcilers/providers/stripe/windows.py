"""Class B: one pass over a window of a list, newest first, for many questions at once.

Top-level v1 lists are immediately consistent. A question is done as soon as the pass is behind
the first instant at which its call can have been sent, so that one old operation never holds up
the young ones; a page that fails leaves the rest without an answer, never with an empty one.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from reconcilers.evidence import CLOCK_SLACK, Look, Outcome, Stage
from reconcilers.providers.base import KnownObject, ProviderError, Question
from reconcilers.providers.stripe.objects import OBJECTS, marker_of, mode_of, sighting_of
from reconcilers.providers.stripe.reader import Missing, Page, Reader
from reconcilers.providers.stripe.scopes import WHOLE, Scope

PAGE_SIZE: Final = 100
#: 100,000 objects; a window that is larger is a question asked wrongly.
MOST_PAGES: Final = 1000
#: The window begins earlier than the send by the slack; a clock may use up half of that.
MOST_BEHIND: Final = CLOCK_SLACK / 2

Done = Callable[[Question, Look], Awaitable[None]]


@dataclass
class _Pass:
    """What the pages read so far showed."""

    kind: str
    scope: Scope
    started_at: datetime
    hits: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pages: int = 0
    rows: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    first_request: str = ""
    last_request: str = ""
    behind: timedelta = timedelta(0)

    def read(
        self, page: Page, wanted: frozenset[str], mode: str, now: datetime
    ) -> list[dict[str, Any]]:
        """Take one page in; raises ProviderError where it is not a page of the right mode."""
        data, more = page.body.get("data"), page.body.get("has_more")
        if not isinstance(data, list) or not isinstance(more, bool) or (more and not data):
            raise ProviderError("an answer that is no page of a list")
        if not all(isinstance(body, dict) for body in data):
            raise ProviderError("a page of a list that holds something else than objects")
        for body in data:
            if mode_of(body) not in {"", mode}:
                raise ProviderError(
                    f"the list shows {mode_of(body)} objects to a {mode} key", permanent=True
                )
            marker = marker_of(body, grouped=self.scope.grouped)
            if marker is not None and marker in wanted:
                self.hits.setdefault(marker, []).append(body)
        if page.told_at is not None:
            self.behind = max(self.behind, now - page.told_at)
        self.pages += 1
        self.rows += len(data)
        self.digest.update(hashlib.sha256(page.raw).digest())
        self.first_request = self.first_request or page.request_id
        self.last_request = page.request_id
        return data


async def read_window(
    reader: Reader,
    kind: str,
    questions: Sequence[Question],
    *,
    scope: Scope = WHOLE,
    control_passed: bool,
    account_seen: str,
    done: Done,
) -> None:
    """Answer every question by the list of one kind of object, or a narrower part of it.

    `done` is called once for each.
    """
    described = OBJECTS[kind]
    state = _Pass(kind, scope, reader.gate.now())
    open_questions = sorted(questions, key=_window_start, reverse=True)
    wanted = frozenset(question.marker for question in questions)
    params: dict[str, Any] = {
        **described.list_filters,
        **scope.filters,
        "limit": PAGE_SIZE,
        "created": {"gte": int(_window_start(open_questions[-1]).timestamp())},
    }
    sight = _Sight(reader, state, control_passed, account_seen)
    problem: ProviderError | None = None
    while open_questions and problem is None:
        try:
            page = await reader.get(described.path, params, endpoint=described.path)
            data = state.read(page, wanted, reader.mode, reader.gate.now())
            behind = _created(data[-1]) if page.body["has_more"] else None
        except ProviderError as error:
            problem = error
            break
        except Missing:
            problem = ProviderError("the list lost its place between two pages")
            break
        while open_questions and (behind is None or behind < _window_start(open_questions[0])):
            question = open_questions.pop(0)
            await done(question, sight.look(question, complete=True))
        if data:
            params["starting_after"] = data[-1]["id"]
        if state.pages >= MOST_PAGES and open_questions:
            problem = ProviderError(f"the window holds more than {MOST_PAGES * PAGE_SIZE} objects")
    for question in open_questions:
        await done(question, sight.look(question, complete=False, problem=problem))


async def is_visible(reader: Reader, known: KnownObject) -> bool:
    """Positive control: does this list, read in the same way, show an object that is there?"""
    described = OBJECTS[known.kind]
    second = int(known.created_at.timestamp())
    params: dict[str, Any] = {
        **described.list_filters,
        "limit": PAGE_SIZE,
        "created": {"gte": second, "lte": second},
    }
    for _ in range(10):
        page = await reader.get(described.path, params, endpoint=described.path)
        data = page.body.get("data") or []
        if any(body.get("id") == known.id for body in data):
            return True
        if not page.body.get("has_more") or not data:
            return False
        params["starting_after"] = data[-1]["id"]
    return False


@dataclass(frozen=True)
class _Sight:
    """Turns the pass into one question's look."""

    reader: Reader
    state: _Pass
    control_passed: bool
    account_seen: str

    def look(
        self, question: Question, *, complete: bool, problem: ProviderError | None = None
    ) -> Look:
        bodies = self.state.hits.get(question.marker, [])
        if not bodies and complete and self.state.behind > MOST_BEHIND:
            # What it made when the call came may bear a time from before the window.
            seconds = self.state.behind.total_seconds()
            complete = False
            problem = ProviderError(
                f"the provider's clock is {seconds:.0f} s behind ours: no window of time is sure"
            )
        sightings = tuple(
            sighting_of(self.state.kind, body, verified=True, marker=question.marker)
            for body in bodies
        )
        if sightings:
            open_effects = any(seen.stage is Stage.IN_FLIGHT for seen in sightings)
            outcome = Outcome.PENDING if open_effects else Outcome.HIT
        else:
            outcome = Outcome.EMPTY if complete else Outcome.CANNOT_LOOK
        described = OBJECTS[self.state.kind]
        return Look(
            lookup="list",
            lookup_class="B",
            outcome=outcome,
            started_at=self.state.started_at,
            ended_at=self.reader.gate.now(),
            endpoint=self.state.scope.endpoint(described.path),
            reason=self._reason(problem) if outcome is Outcome.CANNOT_LOOK else "",
            retry_after_seconds=problem.retry_after_seconds if problem else None,
            permanent=bool(problem and problem.permanent),
            account_seen=self.account_seen,
            mode=self.reader.mode,
            pages=self.state.pages,
            rows=self.state.rows,
            complete=complete,
            exhaustive=self.state.scope.exhaustive and not described.deletable,
            covers_from=_window_start(question) if complete else None,
            control_passed=self.control_passed,
            request_id=self.state.last_request,
            sightings=sightings,
            answer=self._answer(question, bodies, complete),
        )

    def _reason(self, problem: ProviderError | None) -> str:
        what = str(problem) if problem else "not asked"
        return f"page {self.state.pages + 1} of the list: {what}" if self.state.pages else what

    def _answer(
        self, question: Question, bodies: Iterable[Mapping[str, Any]], complete: bool
    ) -> bytes:
        """What is ours word for word; of the rest, which is shared by all, a digest."""
        return json.dumps(
            {
                "created_gte": int(_window_start(question).timestamp()),
                "complete": complete,
                "pages": self.state.pages,
                "objects": self.state.rows,
                "pages_sha256": self.state.digest.hexdigest(),
                "requests": [self.state.first_request, self.state.last_request],
                "ours": list(bodies),
            }
        ).encode()


def _window_start(question: Question) -> datetime:
    return question.window_from - CLOCK_SLACK


def _created(body: Mapping[str, Any]) -> datetime:
    created = body.get("created")
    if not isinstance(created, int):
        raise ProviderError("an object without its time of creation")
    return datetime.fromtimestamp(created, UTC)
