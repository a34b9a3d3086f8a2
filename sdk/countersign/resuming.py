"""Going on where a run stopped: what is done, and what the model said at each step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from countersign import messages
from countersign.asking import Console, asking
from countersign.calls import RunInfo
from countersign.steps import Reply, Send, Steps


@dataclass(frozen=True)
class Resumed:
    """A run as the console remembers it. `known` is False for a run that never got to a call."""

    info: RunInfo
    known: bool
    status: str
    resume_from_step: int
    steps: Mapping[int, Mapping[str, Any]]

    def done(self, step: int) -> bool:
        """Whether the step needs no work any more (a guarded call would only be replayed)."""
        return self.known and step < self.resume_from_step

    def model_output(self, step: int) -> Any:
        """What the model said at this step, so that it need not be asked again; None if unknown."""
        return self.steps.get(step, {}).get("model_output")

    def operations(self, step: int) -> list[dict[str, Any]]:
        return list(self.steps.get(step, {}).get("operations", ()))

    def result_of(self, step: int, tool_call_id: str) -> Any:
        """The recorded result of a committed call, or None."""
        for operation in self.operations(step):
            if operation.get("tool_call_id") == tool_call_id and operation["state"] == "COMMITTED":
                return operation.get("result")
        return None


def resuming(console: Console, info: RunInfo) -> Steps[Resumed]:
    send = Send("GET", f"/api/v1/runs/{quote(info.id, safe='')}")
    reply: Reply = yield from asking(console, send, give_up_after=console.claim_seconds)
    if reply.status == 404:
        return Resumed(info, False, "unknown", 0, {})
    if not reply.ok:
        raise messages.refusal(reply)
    found = reply.body["run"]
    names = ("agent_version", "prompt_version", "code_version", "trigger", "budget")
    kept = {name: found.get(name) for name in names}
    return Resumed(
        RunInfo(info.id, found.get("agent") or info.agent, **kept),
        True,
        reply.body["status"],
        reply.body["resume_from_step"],
        {step["step"]: step for step in reply.body["steps"]},
    )


def listing(console: Console, path: str) -> Steps[list[dict[str, Any]]]:
    """Every item of a list, page by page. `path` may hold filters."""
    items: list[dict[str, Any]] = []
    cursor = None
    while True:
        more = "" if cursor is None else f"{'&' if '?' in path else '?'}cursor={quote(cursor)}"
        send = Send("GET", path + more)
        reply: Reply = yield from asking(console, send, give_up_after=console.claim_seconds)
        if not reply.ok:
            raise messages.refusal(reply)
        items += reply.body["items"]
        cursor = reply.body.get("next_cursor")
        if cursor is None:
            return items


def reading(console: Console, path: str) -> Steps[dict[str, Any]]:
    return (yield from telling(console, Send("GET", path)))


def telling(console: Console, send: Send) -> Steps[dict[str, Any]]:
    """The body of a plain answer; whatever is no success is raised."""
    reply: Reply = yield from asking(console, send, give_up_after=console.claim_seconds)
    if not reply.ok:
        raise messages.refusal(reply)
    return reply.body
