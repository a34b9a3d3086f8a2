"""The protocol of a guarded call: claim, wait, execute inside the permit, report."""

import time
from typing import Any

from countersign import backoff, messages
from countersign.asking import Console
from countersign.attempting import attempting
from countersign.calls import Call, ClearedCall, Effect, Result, Ticket
from countersign.claiming import Progress, claiming, disown
from countersign.errors import ConsoleUnavailable, NotSent
from countersign.offline import proceeding
from countersign.steps import Pause, Steps
from countersign.waiting import WAITING, waiting


def guarding(console: Console, call: Call, effect: Effect | None) -> Steps[Result]:
    """Runs `effect` at most once, whatever dies in between; answers what it did, now or before."""
    if effect is None and call.options.get("executor", "self") == "self":
        raise TypeError(f"{call.tool} has no effect to execute; only executor= may go without one")
    progress = Progress.start(call)
    hasty = 0
    while True:
        try:
            reply = yield from claiming(console, call, progress)
        except ConsoleUnavailable as unavailable:
            if effect is None or not call.options.get("safe"):
                raise
            return (yield from proceeding(console, call, effect, unavailable))
        decision = reply.body.get("decision") if reply.ok else reply.code
        if decision == "execute":
            done = yield from attempting(console, call, effect or _nothing, reply, progress)
            if done is not None:
                return done
            progress.ticket = Ticket.fresh()
        elif decision == "replay":
            return _replayed(call, reply.body)
        elif decision == "ATTEMPT_IN_FLIGHT" or decision in WAITING:
            if decision == "await_reconciliation":
                disown(console, call, progress)
            state = "in_flight" if decision == "ATTEMPT_IN_FLIGHT" else str(decision)
            began = time.monotonic()
            yield from waiting(console, call, reply.body, state, progress)
            # Reads and claims may disagree for a moment; that must not become a busy loop.
            hasty = hasty + 1 if time.monotonic() - began < 0.2 else 0
            if hasty > 1:
                yield Pause(backoff.pause_before(hasty))
        else:
            raise messages.refusal(reply, call) from progress.cause


def _nothing(cleared: ClearedCall) -> Any:
    raise NotSent(f"{cleared.tool} was to be executed by another, and is not executed here")


def _replayed(call: Call, answer: dict[str, Any]) -> Result:
    operation = answer.get("operation") or {}
    return Result(
        value=answer.get("result"),
        result=answer.get("result"),
        replayed=True,
        idem_key=call.idem_key,
        provider_ref=answer.get("provider_ref"),
        effect_status=operation.get("effect_status"),
        attempt_number=operation.get("attempt_number"),
        operation=operation,
    )
