"""The guarded call: what each answer of the console, and each end of the effect, leads to."""

import countersign
import httpx
import pytest
from countersign import Declined, Done, NotSent

from tests.support.scripted_console import (
    ScriptedConsole,
    execute,
    problem,
    reads,
    replay,
    wait,
)
from tests.unit.sdk.conftest import CHARGE, Sdk

KEY = countersign.derive_key("run_7", 3, "call_abc")


def test_it_claims_fenced_with_a_token_of_its_own(sdk: Sdk, console: ScriptedConsole) -> None:
    sdk.guard(goal="renew", position=0, attempt_id="a1", lease_seconds=90)
    (claim,) = console.told("claim")
    token = claim.pop("send_token")
    assert len(token) >= 40
    assert claim == {
        "run": {"id": "run_7", "agent": "renewals"},
        "step": 3,
        "tool_call_id": "call_abc",
        "position": 0,
        "tool": "stripe.charge",
        "args": CHARGE,
        "args_fingerprint": countersign.fingerprint(CHARGE),
        "goal": "renew",
        "attempt": {"id": "a1"},
        "lease_seconds": 90,
        "fenced": True,
    }


def test_it_executes_what_was_claimed_and_reports_it(sdk: Sdk, console: ScriptedConsole) -> None:
    done = sdk.guard(sdk.effect(Done({"id": "pi_1"}, "pi_1", "succeeded")))
    assert (done.result, done.replayed, done.provider_ref) == ({"id": "pi_1"}, False, "pi_1")
    assert done.reported
    (cleared,) = sdk.executed
    assert cleared.idem_key == KEY
    assert cleared.args == CHARGE
    (outcome,) = console.told("outcome")
    attempt_id = console.told("claim")[0]["attempt"]["id"]
    assert outcome == {
        "attempt_number": 1,
        "attempt_id": attempt_id,
        "outcome": "committed",
        "result": {"id": "pi_1"},
        "provider_ref": "pi_1",
        "effect_status": "succeeded",
    }
    assert list(sdk.spool.glob("*.json")) == []


def test_a_hook_that_changes_the_arguments_changes_a_copy(sdk: Sdk) -> None:
    def meddle(cleared: countersign.ClearedCall) -> object:
        cleared.args["amount"] = 1
        return cleared.args["amount"]

    assert sdk.guard(meddle).value == 25000


def test_what_happened_before_is_not_executed_again(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", replay({"id": "pi_1"}, provider_ref="pi_1"))
    done = sdk.guard()
    assert (done.result, done.replayed, done.execution) == ({"id": "pi_1"}, True, "replayed")
    assert sdk.executed == []
    assert console.told("outcome") == []


# Refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (problem(409, "OPERATION_PREVIOUSLY_FAILED", failure="denied"), "ApprovalDenied", "denied"),
        (
            problem(409, "OPERATION_PREVIOUSLY_FAILED", failure="expired"),
            "ApprovalExpired",
            "nobody decided",
        ),
        (
            problem(409, "OPERATION_PREVIOUSLY_FAILED", failure="withdrawn"),
            "ApprovalWithdrawn",
            "withdrawn",
        ),
        (
            problem(409, "OPERATION_PREVIOUSLY_FAILED", failure="provider_declined"),
            "OperationFailed",
            "new step or call id",
        ),
        (
            problem(409, "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS"),
            "ArgsConflict",
            "first arguments stand",
        ),
        (problem(409, "KEY_COLLISION"), "KeyCollision", "unique"),
        (problem(409, "DUPLICATE_RUN", run_id="run_1"), "DuplicateRun", "twice"),
        (problem(429, "BUDGET_EXCEEDED"), "LimitReached", "person"),
        (problem(422, "INVALID_ARGS", pointer="/args/x"), "InvalidCall", "INVALID_ARGS happened"),
        (problem(401, "UNAUTHENTICATED"), "NotAuthorised", "API key"),
    ],
)
def test_a_refusal_is_an_error_that_says_what_to_do(
    sdk: Sdk, console: ScriptedConsole, answer: object, kind: str, says: str
) -> None:
    console.on("claim", answer)  # type: ignore[arg-type]
    with pytest.raises(countersign.CountersignError) as refused:
        sdk.guard()
    assert type(refused.value).__name__ == kind
    assert says in str(refused.value)
    assert sdk.executed == []
    assert len(console.told("claim")) == 1


def test_a_refusal_carries_what_the_console_said_of_it(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", problem(409, "DUPLICATE_RUN", run_id="run_1"))
    with pytest.raises(countersign.DuplicateRun) as twice:
        sdk.guard()
    assert twice.value.run_id == "run_1"
    console.on("claim", problem(422, "INVALID_ARGS", pointer="/args/x"))
    with pytest.raises(countersign.InvalidCall) as invalid:
        sdk.guard()
    assert invalid.value.pointer == "/args/x"
    assert not invalid.value.retryable


@pytest.mark.parametrize("args", [{"x": float("nan")}, {"x": "\ud800"}, {"x": {1}}, {"x": 1e17}])
def test_arguments_that_json_cannot_say_are_never_claimed(
    sdk: Sdk, console: ScriptedConsole, args: object
) -> None:
    with pytest.raises(countersign.NotCanonical) as wrong:
        sdk.guard(args=args)
    assert wrong.value.pointer == "/x"
    assert console.asked == []


def test_a_call_without_an_id_is_told_to_persist_and_number_it(sdk: Sdk) -> None:
    with pytest.raises(ValueError, match="persist"):
        sdk.guard(tool_call_id="")
    assert sdk.guard(tool_call_id="", position=2).idem_key == countersign.derive_key(
        "run_7", 3, "", 2
    )


# Approval ----------------------------------------------------------------------------------------

PENDING = wait(
    "await_approval",
    approval={"id": "apr_1", "url": "http://console/a/1", "expires_at": "2026-01-01T01:00:00Z"},
)


def test_it_waits_for_a_person_and_then_executes(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", PENDING, execute())
    console.on("read", reads("await_approval", 2), reads("await_approval", 3), reads("execute", 4))
    assert sdk.guard().value == "done"
    polls = [(query["wait"], query["since"]) for query in console.told("read")]
    assert polls == [("30", "2"), ("30", "2"), ("30", "3")]


def test_it_parks_where_the_process_may_stop(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", PENDING)
    with pytest.raises(countersign.ApprovalPending) as parked:
        sdk.guard(on_wait="park")
    assert (parked.value.approval_id, parked.value.url) == ("apr_1", "http://console/a/1")
    assert parked.value.expires_at == "2026-01-01T01:00:00Z"
    assert console.told("read") == []
    console.on("claim", execute())
    assert sdk.guard(on_wait="park").value == "done"


def test_a_wait_that_was_long_enough_ends_as_pending(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", PENDING)
    console.on("read", reads("await_approval"))
    with pytest.raises(countersign.ApprovalPending):
        sdk.guard(timeout=0.1)


def test_waiting_survives_a_console_that_goes_away(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", PENDING, execute())
    away = [httpx.ConnectError("refused"), problem(503, "UNAVAILABLE"), httpx.ReadTimeout("slow")]
    console.on("read", *away, reads("execute"))
    assert sdk.guard().value == "done"


# Unknown -----------------------------------------------------------------------------------------

UNKNOWN = wait(
    "await_reconciliation",
    verdict={"kind": "waiting", "sentence": "The list can be trusted from 20:24."},
    next_check_at="2026-01-01T20:24:00Z",
)


def test_it_waits_until_the_console_knows(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", UNKNOWN, replay({"id": "pi_1"}))
    console.on("read", reads("await_reconciliation", 2), reads("replay", 4))
    assert sdk.guard().replayed
    assert sdk.executed == []


def test_it_says_what_is_known_of_the_unknown(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", UNKNOWN)
    with pytest.raises(countersign.OutcomeUnknown) as unknown:
        sdk.guard(on_unknown="raise")
    assert "The list can be trusted from 20:24." in str(unknown.value)
    assert unknown.value.next_check_at == "2026-01-01T20:24:00Z"
    assert unknown.value.idem_key == KEY


def test_a_lost_answer_is_waited_for(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", execute(), UNKNOWN, replay({"id": "pi_1"}))
    console.on("read", reads("replay"))
    done = sdk.guard(sdk.effect(httpx.ReadTimeout("no answer")))
    assert done.replayed
    (outcome,) = console.told("outcome")
    assert outcome["outcome"] == "unknown"
    assert outcome["error"]["type"] == "ReadTimeout"
    assert "send_token" not in outcome
    assert len(sdk.executed) == 1


def test_a_lost_answer_nobody_settles_in_time_is_raised(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", execute(), UNKNOWN)
    console.on("read", reads("await_reconciliation", 2))
    with pytest.raises(countersign.OutcomeUnknown) as unknown:
        sdk.guard(sdk.effect(httpx.ReadTimeout("no answer")), timeout=0.1)
    assert isinstance(unknown.value.__cause__, httpx.ReadTimeout)
    console.on("claim", execute())
    with pytest.raises(httpx.ReadTimeout):
        sdk.guard(sdk.effect(httpx.ReadTimeout("no answer")), on_unknown="raise")


def test_an_exception_of_the_callers_own_is_reported_and_raised_again(
    sdk: Sdk, console: ScriptedConsole
) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        sdk.guard(sdk.effect(ZeroDivisionError("oops")))
    assert "may or may not have happened" in raised.value.__notes__[0]
    (outcome,) = console.told("outcome")
    assert (outcome["outcome"], outcome["error"]["message"]) == ("unknown", "oops")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_reported_and_goes_through(
    console: ScriptedConsole, tmp_path: object, interruption: type[BaseException]
) -> None:
    sdk = Sdk("threads", console, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(interruption):
        sdk.guard(sdk.effect(interruption()))
    assert console.told("outcome")[0]["outcome"] == "unknown"


# No effect ---------------------------------------------------------------------------------------


def test_a_call_that_was_not_sent_is_tried_again_with_the_same_key(
    sdk: Sdk, console: ScriptedConsole
) -> None:
    console.on("claim", execute(1), execute(2), execute(3))
    with pytest.raises(NotSent):
        sdk.guard(sdk.effect(NotSent("no route")))
    claims = console.told("claim")
    assert len(sdk.executed) == len(claims) == 3
    assert len({cleared.idem_key for cleared in sdk.executed}) == 1
    assert len({claim["send_token"] for claim in claims}) == 3
    assert len({claim["attempt"]["id"] for claim in claims}) == 3
    for number, outcome in enumerate(console.told("outcome"), 1):
        claim = claims[number - 1]
        assert outcome["attempt_number"] == number
        assert outcome["attempt_id"] == claim["attempt"]["id"]
        assert outcome["send_token"] == claim["send_token"]
        assert (outcome["outcome"], outcome["effect"]) == ("failed", "none")
        assert outcome["permanent"] is False


def test_the_caller_may_want_one_attempt_only(sdk: Sdk, console: ScriptedConsole) -> None:
    with pytest.raises(NotSent):
        sdk.guard(sdk.effect(NotSent("no route")), attempts=1)
    assert len(console.told("claim")) == 1


def test_a_refusal_by_the_provider_is_over(sdk: Sdk, console: ScriptedConsole) -> None:
    with pytest.raises(Declined):
        sdk.guard(sdk.effect(Declined("no funds", http_status=402, replayed=True)))
    (outcome,) = console.told("outcome")
    assert outcome["permanent"] is True
    assert outcome["error"] == {
        "type": "Declined",
        "message": "no funds",
        "http_status": 402,
        "replayed": True,
    }
    assert len(console.told("claim")) == 1


def test_doubt_that_remains_beside_a_refusal_is_waited_out(
    sdk: Sdk, console: ScriptedConsole
) -> None:
    """A 429 on a replay says nothing about the first send: the console decides, not we."""
    console.on("claim", execute(2), UNKNOWN, replay("settled"))
    console.on("read", reads("replay"))
    assert sdk.guard(sdk.effect(NotSent("429"))).replayed
    assert len(sdk.executed) == 1


# Another process ---------------------------------------------------------------------------------


def test_it_waits_for_the_process_that_is_executing(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", problem(409, "ATTEMPT_IN_FLIGHT", retryable=True), replay("theirs"))
    console.on("read", reads("in_flight", 2), reads("in_flight", 3), reads("replay", 4))
    assert sdk.guard().value == "theirs"
    assert [query.get("since") for query in console.told("read")] == [None, "2", "3"]
    assert sdk.executed == []


def test_it_does_not_wait_for_ever(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", problem(409, "ATTEMPT_IN_FLIGHT"))
    console.on("read", reads("in_flight", 2))
    with pytest.raises(countersign.AttemptInFlight) as busy:
        sdk.guard(timeout=0.1)
    assert busy.value.retryable


def test_a_call_for_a_tool_server_only_waits(sdk: Sdk, console: ScriptedConsole) -> None:
    delegated = wait("delegated", approval={"id": "apr_1"})
    console.on("claim", PENDING, delegated, replay("by the server"))
    console.on("read", reads("delegated", 3), reads("delegated", 4), reads("replay", 5))
    assert sdk.guard(executor="payments").value == "by the server"
    assert console.told("claim")[0]["executor"] == "payments"
    assert sdk.executed == []
