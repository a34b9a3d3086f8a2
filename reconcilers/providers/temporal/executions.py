"""Workflow executions as sightings: what each status says about the effect. Pure.

One effect is one chain of runs: continue-as-new, retries, cron and resets keep the run id that the
chain began with. A new start under the same workflow id begins another chain, and is a second
effect.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from temporalio.api.common.v1 import Memo
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo

from reconcilers.evidence import Sighting, Stage

MARKER: Final = "idem_key"
FINGERPRINT: Final = "args_fingerprint"

DONE, OPEN, NOT = Stage.DONE, Stage.IN_FLIGHT, Stage.NOT_REACHED

#: Sources: temporal.api.enums.v1.WorkflowExecutionStatus as the client ships it.
STAGES: Final = {
    "running": OPEN,
    "paused": OPEN,
    # A later run of the chain goes on; `describe` without a run id answers with that one.
    "continued_as_new": OPEN,
    "completed": DONE,
    "failed": NOT,
    "canceled": NOT,
    "terminated": NOT,
    "timed_out": NOT,
}

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_RUN_FIRST: Final = re.compile(rf"({_UUID})/(.+)", re.DOTALL)
_RUN_LAST: Final = re.compile(rf"(.+)/({_UUID})", re.DOTALL)
_RUN_ALONE: Final = re.compile(_UUID)

#: Longer ids are refused by Temporal itself (1,000 by default).
LONGEST_ID: Final = 1000


def object_id(info: WorkflowExecutionInfo) -> str:
    """`first run id/workflow id`: one name for one effect, whichever of its runs was read."""
    return f"{info.first_run_id or info.execution.run_id}/{info.execution.workflow_id}"


def named(reference: str, marker: str) -> tuple[str, str] | None:
    """(workflow id, run id or empty) that an id known to us names; None where it names none.

    Runtimes report a workflow id, a run id, or both with a slash; sightings say run first.
    """
    if not reference or len(reference) > LONGEST_ID:
        return None
    if reference != marker and (both := _RUN_FIRST.fullmatch(reference)):
        return both[2], both[1]
    if reference != marker and (both := _RUN_LAST.fullmatch(reference)):
        return both[1], both[2]
    if reference != marker and _RUN_ALONE.fullmatch(reference):
        return marker, reference
    return reference, ""


def status_of(info: WorkflowExecutionInfo) -> str:
    """Temporal's name for the status, in small letters."""
    if info.status not in WorkflowExecutionStatus.values():
        return f"status_{info.status}"
    name = WorkflowExecutionStatus.Name(info.status)
    return name.removeprefix("WORKFLOW_EXECUTION_STATUS_").lower()


def sighting_of(
    kind: str, info: WorkflowExecutionInfo, marker: str, *, verified: bool, reported: str = ""
) -> Sighting:
    """One execution. `reported` is the id under which it was reported, where it was.

    For `workflow_start` to exist is all there is. A status that this table does not know counts
    as still open.
    """
    status = status_of(info)
    stage = DONE if kind == "workflow_start" else STAGES.get(status, OPEN)
    memo = memo_of(info.memo)
    found = marker if info.execution.workflow_id == marker else memo.get(MARKER)
    # Without a marker only the reported name ties it to the call: the verdict compares that.
    named_so = reported if found is None and reported else object_id(info)
    return Sighting(
        id=named_so,
        kind=kind,
        status=status,
        stage=stage,
        marker=found,
        verified=verified,
        fingerprint=memo.get(FINGERPRINT),
        detail=f"workflow type {info.type.name}" if info.type.name else "",
        created_at=moment(info.start_time),
    )


def memo_of(memo: Memo) -> dict[str, str]:
    """The memo's texts; what a codec of the customer's has encrypted is left out."""
    texts: dict[str, str] = {}
    for name in (MARKER, FINGERPRINT):
        payload = memo.fields.get(name) if name in memo.fields else None
        text = text_of(payload)
        if text is not None:
            texts[name] = text
    return texts


def text_of(payload: Any) -> str | None:
    """A payload's text, None where it is none or cannot be read."""
    if payload is None or payload.metadata.get("encoding") != b"json/plain":
        return None
    try:
        value = json.loads(payload.data)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def moment(timestamp: Any) -> datetime | None:
    """A protobuf timestamp in UTC; None where it is not set."""
    if not timestamp.seconds:
        return None
    return datetime.fromtimestamp(timestamp.seconds + timestamp.nanos / 1e9, UTC)
