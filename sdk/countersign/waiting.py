"""Waiting for a person, another process or reconciliation: long polls until a claim would help."""

from typing import Any

from countersign import backoff, errors, messages
from countersign.asking import Console
from countersign.calls import Call
from countersign.claiming import Progress
from countersign.steps import Pause, Reply, Send, Steps

#: Decisions under which a claim would only be answered in the same way.
WAITING = frozenset({"await_approval", "await_reconciliation", "in_flight", "delegated"})
_PERSON = frozenset({"await_approval", "delegated"})


def waiting(
    console: Console, call: Call, answer: dict[str, Any], decision: str, progress: Progress
) -> Steps[None]:
    """Returns once a claim would be answered differently. Raises a `Waiting` error where the
    caller does not want to wait, or has waited for as long as it wanted to."""
    if _unwanted(call, decision):
        raise _still(call, decision, answer, progress)
    since = (answer.get("operation") or {}).get("version")
    unanswered = 0
    while progress.left() > 0:
        seconds = max(1, int(min(console.poll_seconds, progress.left())))
        query = "" if since is None else f"?wait={seconds}&since={since}"
        poll: Reply = yield Send("GET", messages.path_of(call.idem_key) + query, None, seconds + 15)
        if poll.passing:
            # The console is away. Nothing is at stake while we only watch: be patient.
            unanswered += 1
            yield Pause(min(backoff.pause_before(unanswered, poll.retry_after), progress.left()))
            continue
        if not poll.ok:
            raise messages.refusal(poll, call) from progress.cause
        unanswered = 0
        since = poll.body.get("version")
        if poll.body.get("decision") != decision:
            return
    raise _still(call, decision, answer, progress)


def _unwanted(call: Call, decision: str) -> bool:
    if decision in _PERSON:
        return call.options.get("on_wait", "wait") == "park"
    return decision == "await_reconciliation" and call.options.get("on_unknown") == "raise"


def _still(call: Call, decision: str, answer: dict[str, Any], progress: Progress) -> errors.Waiting:
    name = f"{call.tool} (run {call.run.id}, step {call.step})"
    goes_on = "The same call, made again by any process, goes on from here."
    if decision in _PERSON:
        approval = answer.get("approval") or {}
        error: errors.Waiting = errors.ApprovalPending(
            f"{name} waits for a person: {approval.get('url')} Nothing was sent. {goes_on}",
            approval_id=approval.get("id"),
            url=approval.get("url"),
            expires_at=approval.get("expires_at"),
        )
    elif decision == "in_flight":
        error = errors.AttemptInFlight(f"{name} is being executed by another process. {goes_on}")
    else:
        verdict = answer.get("verdict") or {}
        said = verdict.get("sentence") or "Nothing has settled it yet."
        error = errors.OutcomeUnknown(
            f"{name} may or may not have happened. {said} Do not repeat it by hand. {goes_on}",
            verdict=verdict,
            next_check_at=answer.get("next_check_at"),
        )
    error.idem_key = call.idem_key
    error.retryable = True
    error.retry_after_seconds = answer.get("retry_after_seconds")
    error.__cause__ = progress.cause
    return error
