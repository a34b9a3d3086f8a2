"""While the console is away: tools that only read may go on, and are told of afterwards."""

from typing import Any

from countersign.asking import Console, leave_to_relay
from countersign.calls import Call, ClearedCall, Effect, Lease, Result, new_id
from countersign.classify import conclude
from countersign.clock import Countdown, now
from countersign.errors import ConsoleUnavailable
from countersign.recording import done_of
from countersign.reports import record_of
from countersign.spool import Report
from countersign.steps import Execute, Raised, Returned, Steps, Work

_UNGUARDED_SECONDS = 3600.0


def proceeding(
    console: Console, call: Call, effect: Effect, unavailable: ConsoleUnavailable
) -> Steps[Result]:
    """Executes a safe tool unclaimed, in report mode: the records go to the spool."""
    attempt_id = new_id()
    cleared = ClearedCall(
        run_id=call.run.id,
        step=call.step,
        tool_call_id=call.tool_call_id,
        tool=call.tool,
        idem_key=call.idem_key,
        args_bytes=call.args_bytes,
        args_fingerprint=call.args_fingerprint,
        attempt_number=0,
        attempt_id=attempt_id,
        first_sent_at=None,
        grant=None,
        permit=Countdown(now(), _UNGUARDED_SECONDS),
        lease=Lease(call.idem_key, 0, _UNGUARDED_SECONDS),
    )
    done: Returned | Raised = yield Execute(effect, cleared)
    invoked = record_of(call, "TOOL_INVOKED", attempt_id)
    if isinstance(done, Raised):
        yield from _spooled(console, [invoked, _failure(call, attempt_id, done.error)])
        done.error.add_note(f"Countersign: {call.tool} ran while the console was away.")
        raise done.error from unavailable
    recorded = done_of(done.value)
    members = {"result": recorded.result, "provider_ref": recorded.provider_ref}
    committed = record_of(call, "TOOL_COMMITTED", attempt_id, **members)
    yield from _spooled(console, [invoked, committed])
    return Result(
        value=done.value,
        result=recorded.result,
        replayed=False,
        idem_key=call.idem_key,
        provider_ref=recorded.provider_ref,
        effect_status=recorded.effect_status,
        reported=False,
    )


def _failure(call: Call, attempt_id: str, error: BaseException) -> dict[str, Any]:
    conclusion = conclude(error)
    told = {"error": {"type": conclusion.type, "message": conclusion.message}}
    if conclusion.outcome == "unknown":
        return record_of(call, "TOOL_UNKNOWN", attempt_id, **told)
    more = told | {"effect": "none", "permanent": conclusion.permanent}
    return record_of(call, "TOOL_FAILED", attempt_id, **more)


def _spooled(console: Console, records: list[dict[str, Any]]) -> Steps[None]:
    report = Report("records", "/api/v1/records", records)
    name: str = yield Work(lambda: console.spool.keep(report))
    leave_to_relay(console, name)
