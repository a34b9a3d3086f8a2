"""One attempt: the effect inside its permit, then the report of what it proves."""

from datetime import datetime

from countersign import backoff, messages
from countersign.asking import Console, asking, reporting
from countersign.calls import Call, ClearedCall, Effect, Lease, Result, Ticket
from countersign.claiming import Progress
from countersign.classify import Conclusion, conclude
from countersign.clock import Countdown
from countersign.errors import GrantRefused, NotSent, PermitLapsed
from countersign.grants import verify_grant
from countersign.spool import Report
from countersign.steps import Execute, Pause, Raised, Reply, Returned, Send, Steps

_LEASE_SECONDS = 60.0


def attempting(
    console: Console, call: Call, effect: Effect, granted: Reply, progress: Progress
) -> Steps[Result | None]:
    """Executes a granted claim and reports it. None: it is not over (no effect, or not known), and
    the next claim says how it goes on. Raises what the effect raised otherwise."""
    cleared = _cleared(call, progress.ticket, granted)
    progress.unheard = False
    progress.attempts_left -= 1
    progress.attempts_made += 1
    console.backstage.watch(cleared.lease)
    try:
        done = yield from _executing(console, effect, cleared, progress.ticket)
    finally:
        console.backstage.unwatch(cleared.lease)
    if isinstance(done, Returned):
        return (yield from _succeeded(console, call, cleared, progress.ticket, done))
    yield from _failed(console, call, cleared, progress, done)
    return None


def _executing(
    console: Console, effect: Effect, cleared: ClearedCall, ticket: Ticket
) -> Steps[Returned | Raised]:
    try:
        _check_grant(console, cleared)
    except GrantRefused as refused:
        return Raised(refused, sent=False)
    done: Returned | Raised = yield Execute(effect, cleared)
    lapsed = isinstance(done, Raised) and type(done.error) is PermitLapsed
    if not lapsed or cleared.lease.lost:
        return done
    # Too late by our clock. The same token gets what is left of the permit, if anything is.
    body = {"attempt_number": cleared.attempt_number, "send_token": ticket.send_token}
    path = messages.path_of(cleared.idem_key, "/sending")
    try:
        reply: Reply = yield from asking(
            console, Send("POST", path, messages.encode(body), 5), give_up_after=0
        )
    except BaseException as interruption:  # noqa: BLE001 -- raised again once it is reported
        return Raised(interruption, sent=False)
    left = reply.body.get("send_within_ms") if reply.ok else None
    if not isinstance(left, int | float) or left <= 0:
        return done
    again: Returned | Raised = yield Execute(
        effect, cleared.with_permit(Countdown(reply.asked_at, left / 1000))
    )
    return again


def _succeeded(
    console: Console, call: Call, cleared: ClearedCall, ticket: Ticket, done: Returned
) -> Steps[Result]:
    body = messages.committed(ticket, cleared.attempt_number, done.value)
    path = messages.path_of(call.idem_key, "/outcome")
    reply = yield from reporting(console, Report("outcome", path, body))
    return Result(
        value=done.value,
        result=body["result"],
        replayed=False,
        idem_key=call.idem_key,
        provider_ref=body.get("provider_ref"),
        effect_status=body.get("effect_status"),
        attempt_number=cleared.attempt_number,
        reported=reply.ok,
        operation=reply.body.get("operation") if reply.ok else None,
    )


def _failed(
    console: Console, call: Call, cleared: ClearedCall, progress: Progress, done: Raised
) -> Steps[None]:
    """Reports what the exception proves. Returns where the call goes on, raises where not."""
    error = done.error
    unsent = not (done.sent or isinstance(error, NotSent))
    conclusion = conclude(NotSent(f"interrupted before sending: {error!r}") if unsent else error)
    body = messages.not_committed(progress.ticket, cleared.attempt_number, conclusion)
    report = Report("outcome", messages.path_of(call.idem_key, "/outcome"), body)
    # A process that is being stopped has no time; one try, and the spool has the rest.
    interrupted = not isinstance(error, Exception)
    reply = yield from reporting(console, report, give_up_after=0 if interrupted else None)
    progress.cause = error
    refused = isinstance(error, GrantRefused)
    if interrupted or refused or not _goes_on(call, progress, conclusion):
        error.add_note(_note(call, conclusion))
        raise error
    if conclusion.outcome == "failed" and type(error) is not PermitLapsed:
        yield Pause(backoff.pause_before(progress.attempts_made + 2, reply.retry_after))


def _check_grant(console: Console, cleared: ClearedCall) -> None:
    if console.grant_keys is None or cleared.grant is None:
        return
    verify_grant(
        cleared.grant,
        console.grant_keys,
        idem_key=cleared.idem_key,
        tool=cleared.tool,
        args_fingerprint=cleared.args_fingerprint,
        claim_id=cleared.attempt_id,
    )


def _goes_on(call: Call, progress: Progress, conclusion: Conclusion) -> bool:
    if conclusion.outcome == "failed":
        return not conclusion.permanent and progress.attempts_left > 0
    return conclusion.lost and call.options.get("on_unknown", "wait") == "wait"


def _note(call: Call, conclusion: Conclusion) -> str:
    if conclusion.outcome == "unknown":
        return (
            f"Countersign: {call.tool} may or may not have happened; it was reported as unknown "
            "and is being settled. Make the same call again to go on; do not repeat it by hand."
        )
    if conclusion.permanent:
        return f"Countersign: {call.tool} had no effect and is over; it was reported as failed."
    return (
        f"Countersign: {call.tool} had no effect, and that was reported. "
        "Make the same call again to try again."
    )


def _cleared(call: Call, ticket: Ticket, granted: Reply) -> ClearedCall:
    answer = granted.body
    number = int(answer["attempt_number"])
    seconds = call.options.get("lease_seconds") or _lease_seconds(answer)
    within = answer.get("send_within_ms") or 0
    return ClearedCall(
        run_id=call.run.id,
        step=call.step,
        tool_call_id=call.tool_call_id,
        tool=call.tool,
        idem_key=call.idem_key,
        args_bytes=call.args_bytes,
        args_fingerprint=call.args_fingerprint,
        attempt_number=number,
        attempt_id=ticket.attempt_id,
        first_sent_at=answer.get("first_sent_at"),
        grant=answer.get("grant"),
        permit=Countdown(granted.asked_at, within / 1000),
        lease=Lease(call.idem_key, number, seconds),
    )


def _lease_seconds(answer: dict[str, object]) -> float:
    """How long leases of this tool are, from two times of the console's own clock."""
    operation = answer.get("operation")
    granted_at = operation.get("updated_at") if isinstance(operation, dict) else None
    try:
        end = datetime.fromisoformat(str(answer.get("lease_expires_at")))
        seconds = (end - datetime.fromisoformat(str(granted_at))).total_seconds()
    except ValueError:
        return _LEASE_SECONDS
    return min(max(seconds, 1.0), 3600.0)
