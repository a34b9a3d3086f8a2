"""Report mode: records of what already happened, in batches that survive the console's absence."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from countersign import messages
from countersign.asking import Console, asking, reporting
from countersign.calls import Call, RunInfo, new_id
from countersign.spool import Report
from countersign.steps import Reply, Send, Steps

MAX_RECORDS = 5000
_PATH = "/api/v1/records"
_MAX_BYTES = 7 * 1024 * 1024
_SUMS = ("accepted", "duplicates", "malformed", "incidents")


def record_of(call: Call, kind: str, attempt_id: str, **members: Any) -> dict[str, Any]:
    """One record about a call; members that are None are left out."""
    record: dict[str, Any] = {
        "record_id": new_id(),
        "type": kind,
        "occurred_at": now_text(),
        "run": call.run.document(),
        "step": call.step,
        "tool_call_id": call.tool_call_id or None,
        "position": call.options.get("position"),
        "idem_key": call.options.get("idem_key"),
        "tool": call.tool,
        "attempt": {"id": attempt_id},
    }
    if kind == "TOOL_INVOKED":
        record |= {"args": json.loads(call.args_bytes), "goal": call.options.get("goal")}
    record |= members
    return {name: value for name, value in record.items() if value is not None}


def run_record(run: RunInfo, kind: str, **members: Any) -> dict[str, Any]:
    """A record about the run itself: `RUN_STARTED`, `LLM_RESPONDED`, `RUN_FINISHED`…"""
    record = {"record_id": new_id(), "type": kind, "occurred_at": now_text()}
    return record | {"run": run.document()} | members


def sending_records(
    console: Console, records: Iterable[Mapping[str, Any]], *, spool: bool = True
) -> Steps[dict[str, Any]]:
    """Reports every record, in batches. `spooled` counts those that wait for the console's return;
    the other numbers and `results` are the console's."""
    summary: dict[str, Any] = dict.fromkeys(_SUMS, 0) | {"spooled": 0, "results": []}
    for batch in _batches(dict(record) for record in records):
        reply = yield from _sending(console, batch, spool=spool)
        if reply.passing and spool:
            summary["spooled"] += len(batch)
            continue
        if not reply.ok:
            raise messages.refusal(reply)
        for name in _SUMS:
            summary[name] += reply.body.get(name, 0)
        summary["results"] += reply.body.get("results", [])
    return summary


def _sending(console: Console, batch: list[dict[str, Any]], *, spool: bool) -> Steps[Reply]:
    if spool:
        return (yield from reporting(console, Report("records", _PATH, batch)))
    send = Send("POST", _PATH, messages.encode(batch))
    return (yield from asking(console, send, give_up_after=console.report_seconds))


def _batches(records: Iterable[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for record in records:
        record.setdefault("record_id", new_id())
        length = len(messages.encode(record))
        if batch and (len(batch) == MAX_RECORDS or size + length > _MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length + 2
    if batch:
        yield batch


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
