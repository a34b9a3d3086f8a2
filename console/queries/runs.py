"""Runs as a list, and one run as a trace. Replays add nothing to what is counted."""

import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count as DbCount
from django.db.models import QuerySet
from django.http import HttpRequest

from console.presentation import words
from console.presentation.words import Headline
from console.queries import clock, queues
from console.search.operations import PAGE, quickly
from operations import states
from operations.models import Attempt, Event, Operation, Run, Standing, Step

#: Steps on one page of a trace.
CHUNK: Final = 200

STATUSES: Final = {
    "running": Headline("running", "Running", "loader-circle"),
    "waiting": Headline("waiting", "Waiting", "hourglass"),
    "finished": Headline("committed", "Finished", "circle-check"),
    "failed": Headline("failed", "Failed", "octagon-x"),
    "abandoned": Headline("flat", "Abandoned", "log-out"),
}


@dataclass(frozen=True)
class RunRow:
    """One line of the list."""

    run: Run
    headline: Headline
    operations: int
    unknown: int
    waiting: int


@dataclass(frozen=True)
class RunList:
    """One page of runs."""

    rows: list[RunRow]
    older: str | None


def listed(request: HttpRequest, *, status: str, agent: str, after: uuid.UUID | None) -> RunList:
    """The newest first, by key."""
    found: QuerySet[Run] = Run.objects.order_by("-id")
    if chosen := queues.environment(request):
        found = found.filter(environment=chosen)
    if status:
        found = found.filter(status=status)
    if agent:
        found = found.filter(agent=agent)
    if after:
        found = found.filter(id__lt=after)
    with quickly():
        rows = list(found[: PAGE + 1])
    more = len(rows) > PAGE
    rows = rows[:PAGE]
    return RunList(_with_counts(rows), rows[-1].handle if more else None)


def _with_counts(rows: list[Run]) -> list[RunRow]:
    keys = [row.pk for row in rows]
    totals = dict(
        Operation.objects.filter(run__in=keys)
        .order_by()
        .values_list("run")
        .annotate(number=DbCount("id"))
    )
    open_now: dict[Any, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    waiting = Standing.objects.filter(operation__run__in=keys).values_list(
        "operation__run", "state", "waiting_on"
    )
    for run, state, waits in waiting:
        open_now[run]["unknown"] += state == states.UNKNOWN
        open_now[run]["waiting"] += waits in {"approval", "sealing", "look", "person"}
    return [
        RunRow(
            run=row,
            headline=status_of(row, waiting=open_now[row.pk]["waiting"] > 0),
            operations=totals.get(row.pk, 0),
            unknown=open_now[row.pk]["unknown"],
            waiting=open_now[row.pk]["waiting"],
        )
        for row in rows
    ]


def status_of(run: Run, *, waiting: bool) -> Headline:
    """`waiting` is derived from the run's operations, never stored."""
    return STATUSES["waiting" if run.status == "running" and waiting else run.status]


@dataclass(frozen=True)
class Bar:
    """One attempt on the time axis, in thousandths of its width. `key` is its shape."""

    x: int
    width: int
    key: str
    title: str


@dataclass
class Line:
    """One call of one step: the operation, its attempts, and how often it was only replayed."""

    operation: Operation
    headline: Headline
    attempts: list[Attempt]
    bars: list[Bar] = field(default_factory=list)
    effect_number: int | None = None

    @property
    def is_replayed(self) -> bool:
        """Was an answer given from the record?"""
        return self.operation.replays > 0

    @property
    def lasted(self) -> timedelta | None:
        """From the first claim to the last end, replays left out."""
        ends = [attempt.ended_at for attempt in self.attempts if attempt.ended_at]
        return max(ends) - self.attempts[0].granted_at if ends else None


@dataclass
class TraceStep:
    """One step: what the model said, and what it called."""

    number: int
    said: Step | None
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Trace:
    """The page: counts first, then the steps."""

    steps: list[TraceStep]
    headline: Headline
    fresh: int
    replayed: int
    effects: int
    reconciled: int
    by_people: int
    unknown: int
    missing: list[int]
    begins: datetime
    ends: datetime
    next_step: int | None


def trace(run: Run, *, first_step: int = 0) -> Trace:
    """Read one run. Effects are numbered in the order of their steps, each once."""
    rows = list(Operation.objects.filter(run=run).order_by("step", "id"))
    said = {step.step: step for step in Step.objects.filter(run=run).defer("model_output")}
    attempts: dict[Any, list[Attempt]] = defaultdict(list)
    for attempt in Attempt.objects.filter(operation__run=run).order_by("number"):
        attempts[attempt.operation_id].append(attempt)
    now = clock.now()
    begins, ends = _span(run, attempts, now)
    steps: dict[int, TraceStep] = {number: TraceStep(number, step) for number, step in said.items()}
    effects = 0
    for row in rows:
        line = Line(row, words.headline(row, now=now), attempts[row.pk])
        if row.state == states.COMMITTED and row.tool_class != "safe":
            effects += 1
            line.effect_number = effects
        line.bars = [_bar(attempt, begins, ends, now) for attempt in line.attempts]
        steps.setdefault(row.step, TraceStep(row.step, None)).lines.append(line)
    ordered = [steps[number] for number in sorted(steps)]
    shown = [step for step in ordered if step.number >= first_step]
    settled = _settled(run)
    return Trace(
        steps=shown[:CHUNK],
        headline=status_of(run, waiting=any(row.waiting_on in _WAITS for row in rows)),
        fresh=sum(bool(attempts[row.pk]) for row in rows),
        replayed=sum(row.replays for row in rows),
        effects=effects,
        reconciled=settled["evidence"],
        by_people=settled["people"],
        unknown=sum(row.state == states.UNKNOWN for row in rows),
        missing=_missing([step.number for step in ordered]),
        begins=begins,
        ends=ends,
        next_step=shown[CHUNK].number if len(shown) > CHUNK else None,
    )


_WAITS: Final = frozenset({"approval", "sealing", "look", "person"})


def _span(run: Run, attempts: dict[Any, list[Attempt]], now: datetime) -> tuple[datetime, datetime]:
    moments = [run.created_at]
    for tries in attempts.values():
        for attempt in tries:
            moments += [attempt.granted_at, attempt.ended_at or now]
    if run.finished_at:
        moments.append(run.finished_at)
    begins, ends = min(moments), max(moments)
    return begins, max(ends, begins + timedelta(milliseconds=1))


#: Standing of an attempt -> shape of its bar.
_BARS: Final = {
    "committed": "committed",
    "in_doubt": "unknown",
    "covered": "unknown",
    "live": "running",
    "no_effect": "failed",
    "not_sent": "pending",
}


def _bar(attempt: Attempt, begins: datetime, ends: datetime, now: datetime) -> Bar:
    whole = (ends - begins).total_seconds()
    until = attempt.ended_at or now
    x = round(1000 * (attempt.granted_at - begins).total_seconds() / whole)
    width = max(6, round(1000 * (until - attempt.granted_at).total_seconds() / whole))
    key = _BARS.get(attempt.standing, "pending")
    x = min(x, 994)
    return Bar(x, min(width, 1000 - x), key, f"attempt {attempt.number}: {attempt.standing}")


def _missing(numbers: list[int]) -> list[int]:
    """Steps between the first and the last that left no trace at all."""
    if not numbers:
        return []
    return sorted(set(range(numbers[0], numbers[-1])) - set(numbers))[:20]


def _settled(run: Run) -> dict[str, int]:
    counts = {"evidence": 0, "people": 0}
    for actor in Event.objects.filter(operation__run=run, type="operation.reconciled").values_list(
        "actor", flat=True
    ):
        counts["people" if actor.startswith("user:") else "evidence"] += 1
    return counts
