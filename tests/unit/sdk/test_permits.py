"""The send permit: a fenced call is executed inside it or not at all."""

import time
from typing import Any

import httpx
import pytest
from countersign import ClearedCall, PermitLapsed, clock

from tests.support.scripted_console import ScriptedConsole, execute, problem, replay, wait
from tests.unit.sdk.conftest import Sdk


def slow(seconds: float, answer: Any) -> Any:
    """An answer that takes its time on the way."""

    def late(asked: Any) -> Any:
        time.sleep(seconds)
        return answer(asked) if callable(answer) else answer

    return late


def test_the_permit_counts_from_before_it_was_asked_for(sdk: Sdk, console: ScriptedConsole) -> None:
    sdk.settings["claim_seconds"] = 5
    console.on("claim", slow(0.3, execute(within_ms=30_000)))
    sdk.guard(sdk.executed.append)
    assert sdk.executed[0].permit.left() < 29.75


def test_too_late_it_sends_nothing_and_says_so(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", slow(0.1, execute(1, within_ms=50)), replay("by another"))
    console.on("sending", problem(409, "LEASE_LOST"))
    assert sdk.guard().value == "by another"
    assert sdk.executed == []
    token = console.told("claim")[0]["send_token"]
    assert console.told("sending") == [{"attempt_number": 1, "send_token": token}]
    (outcome,) = console.told("outcome")
    assert (outcome["outcome"], outcome["effect"]) == ("failed", "none")
    assert outcome["error"]["type"] == "permit_lapsed"
    assert outcome["send_token"] == token


def test_too_late_it_takes_what_is_left_of_the_permit(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", slow(0.1, execute(1, within_ms=50)))
    console.on("sending", (200, {"send_within_ms": 20_000}))
    assert sdk.guard().value == "done"
    assert len(sdk.executed) == 1
    assert len(console.told("claim")) == 1


@pytest.mark.parametrize("left", [(200, {"send_within_ms": 0}), httpx.ReadTimeout("no answer")])
def test_nothing_left_is_not_sent(sdk: Sdk, console: ScriptedConsole, left: Any) -> None:
    console.on("claim", slow(0.1, execute(1, within_ms=50)))
    console.on("sending", left)
    with pytest.raises(PermitLapsed):
        sdk.guard(attempts=1)
    assert sdk.executed == []


def test_an_answer_without_a_permit_permits_nothing(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", execute(1, within_ms=None))
    console.on("sending", problem(409, "SEND_TOKEN_TAKEN"))
    with pytest.raises(PermitLapsed):
        sdk.guard(attempts=1)
    assert sdk.executed == []


def test_an_effect_may_look_again_before_its_bytes_leave(
    sdk: Sdk, console: ScriptedConsole
) -> None:
    sent = []

    def prepare_slowly(cleared: ClearedCall) -> None:
        time.sleep(0.15)
        cleared.ensure_permit()
        sent.append(cleared)

    console.on("claim", execute(1, within_ms=100))
    console.on("sending", problem(409, "LEASE_LOST"))
    with pytest.raises(PermitLapsed):
        sdk.guard(prepare_slowly, attempts=1)
    assert sent == []
    assert console.told("outcome")[0]["effect"] == "none"


def test_the_clock_runs_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    began = clock.now()
    slept = began.steady + 3600
    monkeypatch.setattr(clock, "_steady", lambda: slept)
    assert clock.Countdown(began, 30).left() == pytest.approx(30 - 3600)
    assert began.elapsed() == pytest.approx(3600)


# Claims whose answer is lost ---------------------------------------------------------------------


def test_a_lost_answer_is_asked_for_again_with_the_same_ticket(
    sdk: Sdk, console: ScriptedConsole
) -> None:
    console.on(
        "claim",
        httpx.ReadTimeout("lost"),
        problem(503, "OUTCOME_UNCERTAIN", retryable=True),
        problem(502, "not the console's"),
        execute(),
    )
    assert sdk.guard().value == "done"
    tickets = {(claim["attempt"]["id"], claim["send_token"]) for claim in console.told("claim")}
    assert len(console.told("claim")) == 4
    assert len(tickets) == 1


def test_a_claim_nobody_heard_of_is_disowned(sdk: Sdk, console: ScriptedConsole) -> None:
    """Granted with a permit, it would otherwise lapse into doubt, though nothing was sent."""
    sdk.settings["claim_seconds"] = 0
    console.on("claim", httpx.ReadTimeout("lost"))
    console.on("read", (200, {"attempt_number": 4, "state": "INVOKED"}))
    with pytest.raises(Exception, match="was not executed"):
        sdk.guard()
    client = sdk.client()
    assert client.flush(5) == 0
    client.close()
    claim = console.told("claim")[0]
    (outcome,) = console.told("outcome")
    assert outcome["attempt_number"] == 4
    assert outcome["attempt_id"] == claim["attempt"]["id"]
    assert outcome["send_token"] == claim["send_token"]
    assert (outcome["outcome"], outcome["effect"]) == ("failed", "none")


@pytest.mark.parametrize(
    "answer", [httpx.ConnectError("refused"), problem(503, "UNAVAILABLE", retryable=True)]
)
def test_a_claim_that_certainly_was_not_granted_needs_no_disowning(
    sdk: Sdk, console: ScriptedConsole, answer: Any
) -> None:
    sdk.settings["claim_seconds"] = 0
    console.on("claim", answer)
    with pytest.raises(Exception, match="was not executed"):
        sdk.guard()
    assert list(sdk.spool.glob("*.json")) == []


def test_doubt_over_an_unheard_claim_of_ours_is_cleared(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("claim", httpx.ReadTimeout("lost"), wait("await_reconciliation"), execute(2))
    read = (200, {"attempt_number": 1, "state": "UNKNOWN", "decision": "execute", "version": 3})
    console.on("read", read)
    assert sdk.guard().value == "done"
    first, second = console.told("claim")[1:]
    assert first["attempt"]["id"] != second["attempt"]["id"]
    not_sent = [body for body in console.told("outcome") if body["outcome"] == "failed"]
    assert [body["attempt_id"] for body in not_sent] == [first["attempt"]["id"]]


# Heartbeats --------------------------------------------------------------------------------------


def test_a_long_effect_keeps_its_lease(sdk: Sdk, console: ScriptedConsole) -> None:
    def long(cleared: ClearedCall) -> bool:
        time.sleep(1.2)
        return cleared.lease_lost

    assert sdk.guard(long, lease_seconds=1).value is False
    assert 2 <= len(console.told("heartbeat")) <= 4
    assert console.told("heartbeat")[0] == {"attempt_number": 1, "lease_seconds": 1}


def test_an_effect_learns_that_its_lease_is_lost(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("heartbeat", problem(409, "LEASE_LOST"))

    def long(cleared: ClearedCall) -> None:
        time.sleep(0.6)
        cleared.ensure_permit()

    with pytest.raises(PermitLapsed):
        sdk.guard(long, lease_seconds=1, attempts=1)
    assert len(console.told("heartbeat")) == 1
    assert console.told("sending") == []
