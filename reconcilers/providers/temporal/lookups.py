"""The reads behind each look-up: a workflow by id, its runs in visibility, an activity by history.

Each takes what it finds into a `Reading`; what it cannot read is the reading's problem.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from temporalio.api.workflow.v1 import WorkflowExecutionInfo

from reconcilers.evidence import CLOCK_SLACK, Sighting
from reconcilers.providers.base import ProviderError, Question
from reconcilers.providers.temporal import activities
from reconcilers.providers.temporal.activities import Run
from reconcilers.providers.temporal.client import Frontend, Missing, successor_of
from reconcilers.providers.temporal.executions import (
    STAGES,
    moment,
    named,
    sighting_of,
    status_of,
)

#: Runs of one chain that are followed.
LONGEST_CHAIN: Final = 50

#: An open run is the newest of its chain; a closed one may have been continued, retried or reset.
_NEWEST: Final = frozenset({"running", "paused"})


@dataclass
class Reading:
    """What the reads for one look gave so far."""

    started_at: datetime
    sightings: dict[str, Sighting] = field(default_factory=dict)
    answers: list[bytes] = field(default_factory=list)
    pages: int = 0
    problem: ProviderError | None = None
    exhaustive: bool = True

    def see(self, seen: Sighting) -> None:
        """The first read of an effect counts: it was of its newest run."""
        self.sightings.setdefault(seen.id, seen)


LookUp = Callable[[Frontend, Question, Reading], Awaitable[None]]


# Workflows ----------------------------------------------------------------------------------------


async def describe(frontend: Frontend, question: Question, reading: Reading) -> None:
    """The workflow whose id is the key, and those whose ids are known."""
    marker = question.marker
    candidates = {(marker, ""): ""}
    for reference in question.object_ids:
        both = named(reference, marker)
        if both is not None:
            candidates.setdefault(both, reference)
    for (workflow_id, run_id), reference in candidates.items():
        try:
            info = await _newest_of_chain(frontend, workflow_id, run_id, reading)
        except Missing:
            continue
        except ProviderError as problem:
            reading.problem = problem
            continue
        reading.see(
            sighting_of(question.object_kind, info, marker, verified=True, reported=reference)
        )


async def list_runs(frontend: Frontend, question: Question, reading: Reading) -> None:
    """Every chain under the key that visibility shows, each read again by its run id."""
    runs, pages = await frontend.visible(question.marker)
    reading.answers.extend(pages)
    reading.pages += len(pages)
    # Newest first: of the runs of one chain the newest counts. Visibility does not tell chains.
    runs.sort(key=lambda run: run.start_time.ToNanoseconds(), reverse=True)
    if len(runs) > LONGEST_CHAIN:
        reading.problem = ProviderError(f"only the newest {LONGEST_CHAIN} runs were read")
    for info in runs[:LONGEST_CHAIN]:
        run_id = info.execution.run_id
        try:
            read = await _described(frontend, question.marker, run_id, reading)
        except (Missing, ProviderError) as problem:
            reading.problem = ProviderError(
                f"visibility shows run {run_id}, which could not be read again: {problem}"
            )
            seen = sighting_of(question.object_kind, info, question.marker, verified=False)
        else:
            seen = sighting_of(question.object_kind, read, question.marker, verified=True)
        reading.see(seen)


async def _newest_of_chain(
    frontend: Frontend, workflow_id: str, run_id: str, reading: Reading
) -> WorkflowExecutionInfo:
    """The newest run of the effect that this run belongs to; without a run id, of the newest."""
    info = await _described(frontend, workflow_id, run_id, reading)
    chain = info.first_run_id
    for _ in range(LONGEST_CHAIN):
        if not run_id or status_of(info) in _NEWEST or status_of(info) not in STAGES:
            return info
        newest = await _described(frontend, workflow_id, "", reading)
        if newest.first_run_id == chain:
            return newest
        after = await frontend.successor(workflow_id, info.execution.run_id)
        if not after:
            return info
        info = await _described(frontend, workflow_id, after, reading)
    raise ProviderError(f"workflow {workflow_id} was continued more than {LONGEST_CHAIN} times")


async def _described(
    frontend: Frontend, workflow_id: str, run_id: str, reading: Reading
) -> WorkflowExecutionInfo:
    info, raw = await frontend.describe(workflow_id, run_id)
    reading.answers.append(raw)
    reading.pages += 1
    return info


# Activities ---------------------------------------------------------------------------------------


async def history(frontend: Frontend, question: Question, reading: Reading) -> None:
    """The whole chain of the workflow that the key, or somebody's report, names."""
    marker = question.marker
    workflows = _workflows(question)
    if not workflows:
        raise ProviderError(
            "nobody knows the workflow of this activity: make its key of `workflow id/activity"
            " id`, or let the runtime report the workflow id",
            permanent=True,
        )
    # Only a key that names its workflow says where else the activity cannot be.
    reading.exhaustive = activities.split_marker(marker) is not None
    read: set[str] = set()
    for workflow_id, run_id in workflows:
        if run_id in read:
            continue
        try:
            runs = await _chain(frontend, workflow_id, run_id, question, reading)
        except Missing:
            continue
        read.update(run.run_id for run in runs)
        reading.answers.append(activities.evidence_in(workflow_id, runs, marker))
        for seen in activities.sightings_in(workflow_id, runs, marker):
            reading.see(seen)


def _workflows(question: Question) -> list[tuple[str, str]]:
    """(workflow id, run id or empty) wherever the activity may be, the key's own first."""
    in_marker = activities.split_marker(question.marker)
    home, activity_id = in_marker or ("", question.marker)
    found = [(home, "")] if home else []
    for reference in question.object_ids:
        for name in (reference.removesuffix(f"/{activity_id}"), reference.rpartition("/")[0]):
            # The second is for an activity that an earlier look met under an id of its own.
            both = named(name, home)
            if both is not None and both[0] and both not in found:
                found.append(both)
    return found


async def _chain(
    frontend: Frontend, workflow_id: str, run_id: str, question: Question, reading: Reading
) -> list[Run]:
    """The histories of a chain's runs from its first on, and of its newest run."""
    info = await _described(frontend, workflow_id, run_id, reading)
    last = info.execution.run_id
    runs: dict[str, Run] = {}
    following = info.first_run_id
    while following and following not in runs:
        if len(runs) >= LONGEST_CHAIN:
            raise ProviderError(f"workflow {workflow_id} has more than {LONGEST_CHAIN} runs")
        try:
            runs[following] = await _run(frontend, workflow_id, following, reading)
        except Missing:
            reading.problem = ProviderError(
                f"run {following} of workflow {workflow_id} is no longer there: its activities"
                " cannot be seen",
                permanent=True,
            )
            break
        following = successor_of(runs[following].events)
    if last not in runs:
        # A reset hands over without saying so in the history.
        runs[last] = await _run(frontend, workflow_id, last, reading)
    if run_id or not _is_all_there_was(runs, last, question):
        reading.exhaustive = False
    return list(runs.values())


def _is_all_there_was(runs: dict[str, Run], last: str, question: Question) -> bool:
    """Whether nothing under this workflow id can have scheduled it but these runs.

    An open workflow still can; and where the chain began after the call, another one had the
    workflow id before it.
    """
    first = next(iter(runs.values()))
    began_at = moment(first.events[0].event_time) if first.events else None
    if began_at is None or began_at > question.window_from - CLOCK_SLACK:
        return False
    return runs[last].is_closed


async def _run(frontend: Frontend, workflow_id: str, run_id: str, reading: Reading) -> Run:
    events, pages, digest = await frontend.history(workflow_id, run_id)
    reading.pages += pages
    return Run(run_id, events, digest)
