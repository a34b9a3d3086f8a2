"""Failures that people really met (cases P01, R01, R15, R16, R21, I08; A13 is with approvals)."""

import dataclasses
from typing import Any

import pytest

from operations import outcomes
from operations.claims import OutcomeReport
from operations.models import Incident
from tests.support import claiming
from tests.support.claiming import MAIL, PUT, Agent, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def again(request: Any, **said: Any) -> Any:
    return dataclasses.replace(request, **{"attempt_id": "another", **said})


def test_p01_a_slow_charge_is_unknown_blocks_a_fresh_try_and_two_charges_are_shouted_about(
    agent: Agent,
) -> None:
    topup = agent.call(tool=MAIL, args={"customer": "cus_1", "amount": 5000, "currency": "usd"})
    first = agent.claim(topup)
    agent.report(first, "unknown", error={"type": "timeout"})
    retry = agent.claim(again(topup))
    assert retry.body["decision"] == "await_reconciliation"
    assert retry.body["idem_key"] == first.body["idem_key"]
    for ref in ("pi_1", "pi_2"):
        agent.report(first, "committed", provider_ref=ref)
    row = agent.row(first)
    incident = Incident.objects.get(operation=row, kind="duplicate_effect")
    assert (row.state, row.provider_ref) == ("COMMITTED", "pi_1")
    assert {incident.details["provider_ref"], *incident.details["known_refs"]} == {"pi_1", "pi_2"}


def test_r01_a_resumed_node_gets_the_stored_result_of_its_finished_sibling(agent: Agent) -> None:
    email = agent.call(tool=MAIL, step=4, tool_call_id="call_w")
    sent = agent.claim(email)
    agent.report(sent, "committed", result=b'{"sent": true}')
    resumed = agent.claim(again(email))
    assert (resumed.body["decision"], resumed.body["result"]) == ("replay", {"sent": True})
    row = agent.row(sent)
    assert (row.attempts, row.replays) == (1, 1)


def test_r15_only_what_is_committed_is_answered_from_the_store(agent: Agent) -> None:
    failed = agent.call(tool=MAIL)
    agent.nothing_happened(agent.claim(failed), permanent=True)
    with refused("OPERATION_PREVIOUSLY_FAILED") as error:
        agent.claim(again(failed))
    assert error.extra["failure"] == "provider_declined"
    crashed = agent.call(tool=MAIL)
    granted = agent.claim(crashed)
    claiming.let_lapse(agent.row(granted))
    answer = agent.claim(again(crashed))
    assert answer.body["decision"] == "await_reconciliation"
    assert answer.body["result"] is None


def test_r16_a_step_that_runs_twice_is_held_back_and_two_effects_are_counted(agent: Agent) -> None:
    charge = agent.call(tool=MAIL)
    first = agent.claim(dataclasses.replace(charge, worker="w1"))
    with refused("ATTEMPT_IN_FLIGHT"):
        agent.claim(again(charge, worker="w2"))
    agent.report(first, "unknown")
    claiming.age(agent.row(first), 7200)
    claiming.release(agent.row(first), "signed")
    second = agent.claim(again(charge, worker="w2"))
    agent.report(second, "committed", provider_ref="ch_2")
    agent.report(first, "committed", provider_ref="ch_1")
    assert "duplicate_effect" in agent.incidents(first)
    refs = agent.row(first).attempt_set.order_by("number").values_list("provider_ref", flat=True)
    assert list(refs) == ["ch_1", "ch_2"]


def test_r21_a_lost_connection_waits_unless_the_tool_may_be_repeated(agent: Agent) -> None:
    order = agent.call(tool="shop.place_order")
    agent.report(agent.claim(order), "unknown", error={"type": "connection_lost"})
    assert agent.claim(again(order)).body["decision"] == "await_reconciliation"
    fetch = agent.call(tool=claiming.SAFE)
    agent.report(agent.claim(fetch), "unknown", error={"type": "connection_lost"})
    assert agent.claim(again(fetch)).body["decision"] == "execute"


def test_i08_a_minted_id_used_again_is_no_duplicate_and_stored_answers_are_counted(
    agent: Agent,
) -> None:
    first = agent.call(tool=PUT, tool_call_id="exec:80", args={"cmd": "a"}, args_raw=b'{"cmd":"a"}')
    done = agent.claim(first)
    agent.report(done, "committed", result=b'"out of a"')
    other = again(first, args={"cmd": "b"}, args_raw=b'{"cmd":"b"}')
    for _ in range(3):
        with refused("IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS"):
            agent.claim(other)
    incident = Incident.objects.get(operation=agent.row(done), kind="args_conflict")
    assert incident.times_seen == 3
    for _ in range(4):
        agent.claim(again(first))
    assert agent.row(done).replays == 4


def test_a_report_for_a_key_that_nobody_claimed_is_never_lost(agent: Agent) -> None:
    for number in range(3):
        with refused("NOT_FOUND"):
            report = OutcomeReport(1, "committed", provider_ref=f"pi_{number}")
            outcomes.report_outcome(agent.runtime, "early", report)
    answer = agent.claim(tool=MAIL, idem_key="early")
    assert answer.body["decision"] == "replay"
    assert agent.incidents("early") == ["duplicate_effect", "duplicate_effect", "late_effect"]
