"""The bodies that `/api/v1` takes, and the exceptions that its refusals become."""

import json
from typing import Any
from urllib.parse import quote

from countersign import errors
from countersign.calls import Call, Lease, Ticket
from countersign.classify import Conclusion
from countersign.recording import done_of
from countersign.steps import Reply

_CALL_MEMBERS = ("position", "goal", "reason", "model_output", "lease_seconds", "compensates")


def path_of(idem_key: str, verb: str = "") -> str:
    return f"/api/v1/operations/{quote(idem_key, safe='')}{verb}"


def claim_body(call: Call, ticket: Ticket) -> bytes:
    """The claim, its `args` in their canonical form byte for byte."""
    options = call.options
    attempt = {"id": ticket.attempt_id}
    for name in ("layer", "worker"):
        if value := options.get(name):
            attempt[name] = str(value)
    body: dict[str, Any] = {
        "run": call.run.document(),
        "step": call.step,
        "tool": call.tool,
        "args_fingerprint": call.args_fingerprint,
        "attempt": attempt,
        "fenced": True,
        "send_token": ticket.send_token,
    }
    if call.tool_call_id:
        body["tool_call_id"] = call.tool_call_id
    for name in (*_CALL_MEMBERS, "redacted", "idem_key", "executor"):
        if options.get(name) is not None:
            body[name] = options[name]  # type: ignore[literal-required]
    return with_args(body, call.args_bytes)


def with_args(body: dict[str, Any], args: bytes) -> bytes:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return text[:-1] + b', "args": ' + args + b"}"


def committed(ticket: Ticket, number: int, value: Any) -> dict[str, Any]:
    done = done_of(value)
    body: dict[str, Any] = {
        "attempt_number": number,
        "attempt_id": ticket.attempt_id,
        "outcome": "committed",
        "result": done.result,
    }
    if done.provider_ref is not None:
        body["provider_ref"] = done.provider_ref
    if done.effect_status is not None:
        body["effect_status"] = done.effect_status
    return body


def not_committed(ticket: Ticket, number: int, conclusion: Conclusion) -> dict[str, Any]:
    """`failed` (with the token that makes it count) or `unknown`."""
    error: dict[str, Any] = {"type": conclusion.type, "message": conclusion.message}
    if conclusion.http_status is not None:
        error |= {"http_status": conclusion.http_status, "replayed": conclusion.replayed}
    body: dict[str, Any] = {
        "attempt_number": number,
        "attempt_id": ticket.attempt_id,
        "outcome": conclusion.outcome,
        "error": error,
    }
    if conclusion.outcome == "failed":
        body |= {"effect": "none", "permanent": conclusion.permanent}
        body["send_token"] = ticket.send_token
    return body


def heartbeat_body(lease: Lease) -> bytes:
    seconds = max(1, round(lease.seconds))
    return encode({"attempt_number": lease.attempt_number, "lease_seconds": seconds})


def encode(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def refusal(reply: Reply, call: Call | None = None) -> errors.CountersignError:
    """The exception for an answer that is no 2xx."""
    problem = {"idem_key": call.idem_key} | reply.body if call else reply.body
    name = f"{call.tool} (run {call.run.id}, step {call.step})" if call else "The request"
    code = reply.code or ""
    if reply.passing:
        return errors.ConsoleUnavailable(
            f"The console could not be asked: {reply.said()}. {name} was not executed. "
            "Call again when the console is back; it goes on from what is recorded.",
            problem=problem,
        )
    if code == "OPERATION_PREVIOUSLY_FAILED":
        return _failed(name, problem)
    detail = problem.get("detail") or problem.get("title") or f"HTTP {reply.status}"
    kind, advice = _REFUSALS.get(code, _by_status(reply.status))
    return kind(f"{name} was not executed: {detail} {advice}".strip(), problem=problem)


def _failed(name: str, problem: dict[str, Any]) -> errors.OperationFailed:
    kind, sentence = _FAILURES.get(
        problem.get("failure") or "",
        (errors.OperationFailed, f"is over ({problem.get('failure')}); it had no effect"),
    )
    advice = "Nothing was executed. A new wish needs a new step or call id."
    if problem.get("superseded_by"):
        advice = f"It was replaced by {problem['superseded_by']}; go on from there."
    return kind(f"{name} {sentence}. {advice}", problem=problem)


def _by_status(status: int | None) -> tuple[type[errors.CountersignError], str]:
    if status in (401, 403):
        return errors.NotAuthorised, "Check the API key, its scopes and its expiry."
    if status in (400, 413, 415, 422):
        return errors.InvalidCall, "Correct the call; nothing was recorded."
    return errors.CountersignError, ""


_FAILURES: dict[str, tuple[type[errors.OperationFailed], str]] = {
    "denied": (errors.ApprovalDenied, "was denied by a reviewer"),
    "expired": (
        errors.ApprovalExpired,
        "was not approved in time: nobody decided, which is neither a yes nor a no",
    ),
    "withdrawn": (errors.ApprovalWithdrawn, "was withdrawn before anybody decided"),
    "provider_declined": (errors.OperationFailed, "was declined by the provider"),
    "cancelled": (errors.OperationFailed, "was cancelled"),
}
_CONFLICT = (
    "The first arguments stand and an incident was opened. Run what was persisted before its first "
    "try; other arguments need another step or call id."
)
_LIMIT = "It is over for good and an incident was opened; a person has to look."
_REFUSALS: dict[str, tuple[type[errors.CountersignError], str]] = {
    "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS": (
        errors.ArgsConflict,
        _CONFLICT,
    ),
    "KEY_COLLISION": (errors.KeyCollision, "Let the SDK derive the key, or make yours unique."),
    "DUPLICATE_RUN": (errors.DuplicateRun, "The trigger was delivered twice; stop this run."),
    "BUDGET_EXCEEDED": (errors.LimitReached, _LIMIT),
    "ATTEMPTS_EXHAUSTED": (errors.LimitReached, _LIMIT),
    "GOAL_ATTEMPTS_EXHAUSTED": (errors.LimitReached, _LIMIT),
}
