"""Activities as sightings, out of the histories of one workflow's chain of runs. Pure.

An activity that retries is one activity: its attempts are not in the history, only its end is.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf import json_format
from temporalio.api.history.v1 import HistoryEvent

from reconcilers.evidence import Sighting, Stage
from reconcilers.providers.temporal.executions import MARKER, moment, text_of

DONE, OPEN, NOT = Stage.DONE, Stage.IN_FLIGHT, Stage.NOT_REACHED

STAGES: Final = {
    "scheduled": OPEN,
    "started": OPEN,
    "completed": DONE,
    # What the worker had already done when it failed, nobody knows: a person must say.
    "failed": NOT,
    "timed_out": NOT,
    "canceled": NOT,
    "abandoned": NOT,
}

_SCHEDULED: Final = "activity_task_scheduled_event_attributes"
_LATER: Final = {
    "activity_task_started_event_attributes": "started",
    "activity_task_completed_event_attributes": "completed",
    "activity_task_failed_event_attributes": "failed",
    "activity_task_timed_out_event_attributes": "timed_out",
    "activity_task_canceled_event_attributes": "canceled",
}
_CLOSES: Final = frozenset(
    f"workflow_execution_{how}_event_attributes"
    for how in ("completed", "failed", "timed_out", "canceled", "terminated", "continued_as_new")
)


@dataclass(frozen=True)
class Run:
    """One run's whole history, and the SHA-256 of the pages that told it."""

    run_id: str
    events: Sequence[HistoryEvent]
    pages_sha256: str = ""

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer schedule anything."""
        return bool(self.events) and self.events[-1].WhichOneof("attributes") in _CLOSES


def split_marker(marker: str) -> tuple[str, str] | None:
    """(workflow id, activity id) of a key that is made of both, `workflow id/activity id`."""
    workflow_id, separator, activity_id = marker.rpartition("/")
    return (workflow_id, activity_id) if separator and workflow_id and activity_id else None


def sightings_in(workflow_id: str, runs: Iterable[Run], marker: str) -> list[Sighting]:
    """Every activity that carries the marker: as its id, in its header, or with its workflow's id.

    A reset copies events into the run that it makes: such a copy is the same activity.
    """
    found: dict[tuple[int, int, int], Sighting] = {}
    for run in runs:
        for event in run.events:
            if event.WhichOneof("attributes") != _SCHEDULED:
                continue
            if not _is_ours(workflow_id, event, marker):
                continue
            seen = _sighting(workflow_id, run, event, marker)
            same = (event.event_id, event.event_time.seconds, event.event_time.nanos)
            known = found.get(same)
            if known is None:
                found[same] = seen
            elif known.stage is not DONE:
                found[same] = replace(seen, id=known.id)
    return list(found.values())


def evidence_in(workflow_id: str, runs: Sequence[Run], marker: str) -> bytes:
    """What is ours word for word; of the rest of the histories, which may be long, a digest."""
    ours: list[dict[str, Any]] = []
    for run in runs:
        numbers = {
            event.event_id
            for event in run.events
            if event.WhichOneof("attributes") == _SCHEDULED and _is_ours(workflow_id, event, marker)
        }
        ours.extend(
            {"run_id": run.run_id, **json_format.MessageToDict(event)}
            for event in run.events
            if event.event_id in numbers or _scheduled_as(event) in numbers
        )
    read = [
        {"run_id": run.run_id, "events": len(run.events), "pages_sha256": run.pages_sha256}
        for run in runs
    ]
    return json.dumps({"workflow_id": workflow_id, "runs": read, "ours": ours}).encode()


def _scheduled_as(event: HistoryEvent) -> int | None:
    """The event that scheduled the activity which this one is about; None for any other event."""
    which = event.WhichOneof("attributes") or ""
    return getattr(event, which).scheduled_event_id if which in _LATER else None


def _is_ours(workflow_id: str, event: HistoryEvent, marker: str) -> bool:
    scheduled = event.activity_task_scheduled_event_attributes
    fields = scheduled.header.fields
    in_header = text_of(fields[MARKER]) if MARKER in fields else None
    if in_header is not None:
        return in_header == marker
    return marker in {scheduled.activity_id, f"{workflow_id}/{scheduled.activity_id}"}


def _sighting(workflow_id: str, run: Run, event: HistoryEvent, marker: str) -> Sighting:
    scheduled = event.activity_task_scheduled_event_attributes
    status, detail = _standing(run, event.event_id)
    name = f"activity type {scheduled.activity_type.name}" if scheduled.activity_type.name else ""
    return Sighting(
        id=f"{run.run_id}/{workflow_id}/{scheduled.activity_id}",
        kind="activity",
        status=status,
        stage=STAGES[status],
        marker=marker,
        verified=True,
        detail=", ".join(part for part in (name, detail) if part),
        created_at=moment(event.event_time),
    )


def _standing(run: Run, scheduled_event_id: int) -> tuple[str, str]:
    """Its last status, and why where it went wrong."""
    status, detail = "scheduled", ""
    for event in run.events:
        if _scheduled_as(event) == scheduled_event_id:
            which = event.WhichOneof("attributes") or ""
            attributes = getattr(event, which)
            status = _LATER[which]
            failure = getattr(attributes, "failure", None)
            detail = _kind_of_failure(failure) if failure is not None else ""
    if STAGES[status] is OPEN and run.is_closed:
        return "abandoned", "the workflow closed before it ended"
    return status, detail


def _kind_of_failure(failure: object) -> str:
    """The failure's type alone: its message is the customer's, and may hold anything."""
    info = getattr(failure, "application_failure_info", None)
    name = getattr(info, "type", "")
    return f"failure {name}" if name else ""
