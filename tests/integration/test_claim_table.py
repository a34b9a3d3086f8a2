"""The claim table, 2xx: what each answer holds, and what a repeated claim gets."""

import dataclasses
from typing import Any

import pytest

from operations import states
from operations.models import Event, Payload, Step
from tests.support import claiming
from tests.support.claiming import MAIL, SAFE, Agent, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def again(request: Any, **said: Any) -> Any:
    """The same call, claimed by another attempt unless the test says otherwise."""
    return dataclasses.replace(request, **{"attempt_id": "another", **said})


def test_a_first_claim_is_recorded_and_holds_the_lease(agent: Agent) -> None:
    answer = agent.claim(tool=MAIL, lease_seconds=90, reason="invoice 77", model_output=b'{"a":1}')
    row = agent.row(answer)
    assert answer.status == 201
    assert (answer.body["decision"], answer.body["attempt_number"]) == ("execute", 1)
    assert (answer.body["send_within_ms"], answer.body["first_sent_at"]) == (None, None)
    assert (row.state, row.version, row.attempts, row.waiting_on) == ("INVOKED", 2, 1, "lease")
    assert (row.lease_expires_at - row.updated_at).total_seconds() == 90
    types = Event.objects.filter(operation=row).order_by("version").values_list("type", flat=True)
    assert list(types) == ["operation.recorded", "operation.invoked"]
    kinds = Payload.objects.filter(operation=row).values_list("kind", flat=True)
    assert sorted(kinds) == ["args", "reason"]
    assert bytes(Step.objects.get(run=row.run, step=1).model_output) == b'{"a":1}'


def test_the_default_lease_is_the_catalogues(agent: Agent) -> None:
    claiming.publish({"name": MAIL, "lease_seconds": 17})
    row = agent.row(agent.claim(tool=MAIL))
    assert (row.lease_expires_at - row.updated_at).total_seconds() == 17
    unregistered = agent.row(agent.claim(tool="nobody.registered.this"))
    assert (unregistered.tool_class, unregistered.tool_version) == ("unsafe", None)
    assert (unregistered.lease_expires_at - unregistered.updated_at).total_seconds() == 60


def test_a_send_token_makes_the_answer_the_permit(agent: Agent) -> None:
    answer = agent.claim(tool=MAIL, send_token="t", lease_seconds=5)
    attempt = agent.row(answer).attempt_set.get()
    assert 4_900 < answer.body["send_within_ms"] <= 5_000
    assert attempt.fenced
    assert attempt.permit_until == attempt.lease_expires_at
    assert agent.row(answer).first_sent_at == attempt.permit_at


def test_a_claim_without_an_attempt_id_is_given_one(agent: Agent) -> None:
    assert agent.claim(attempt_id=None).body["attempt_id"]


def test_the_same_attempt_id_gets_the_same_answer(agent: Agent) -> None:
    request = agent.call(tool=MAIL, fenced=True)
    first, second = agent.claim(request), agent.claim(request)
    assert (first.status, second.status) == (201, 201)
    same = ("attempt_number", "attempt_id", "lease_expires_at", "send_within_ms", "first_sent_at")
    assert {name: first.body[name] for name in same} == {name: second.body[name] for name in same}
    assert agent.row(first).attempts == 1


def test_a_repeated_claim_may_bring_its_token_but_not_another_one(agent: Agent) -> None:
    request = agent.call(tool=MAIL, fenced=True)
    agent.claim(request)
    with_token = agent.claim(dataclasses.replace(request, send_token="mine"))
    assert with_token.body["send_within_ms"] > 0
    repeated = agent.claim(dataclasses.replace(request, send_token="mine"))
    assert 0 < repeated.body["send_within_ms"] <= with_token.body["send_within_ms"]
    with refused("ATTEMPT_IN_FLIGHT"):
        agent.claim(dataclasses.replace(request, send_token="not mine"))


def test_once_the_lease_is_over_the_same_attempt_id_is_a_new_claim(agent: Agent) -> None:
    request = agent.call(tool=MAIL, fenced=True)
    first = agent.claim(request)
    claiming.let_lapse(agent.row(first))
    second = agent.claim(request)
    assert (second.status, second.body["attempt_number"]) == (201, 2)
    assert agent.standings(first) == ["not_sent", "live"]


def test_a_second_process_that_promises_nothing_takes_the_fence_away(agent: Agent) -> None:
    request = agent.call(tool=MAIL, fenced=True)
    first = agent.claim(request)
    assert agent.claim(dataclasses.replace(request, fenced=False)).status == 201
    claiming.let_lapse(agent.row(first))
    claiming.sweep()
    assert agent.row(first).state == states.UNKNOWN


def test_a_process_without_the_token_does_not_share_a_permit(agent: Agent) -> None:
    request = agent.call(tool=MAIL, send_token="mine")
    agent.claim(request)
    with refused("ATTEMPT_IN_FLIGHT"):
        agent.claim(dataclasses.replace(request, send_token=None))
    fenced = agent.claim(dataclasses.replace(request, send_token=None, fenced=True))
    assert (fenced.status, fenced.body["send_within_ms"]) == (201, None)


def test_committed_is_replayed_and_counted(agent: Agent) -> None:
    request = agent.call()
    granted = agent.claim(request)
    agent.report(granted, "committed", result=b'{"ok": true}', provider_ref="pi_1")
    for count in (1, 2):
        answer = agent.claim(again(request))
        assert (answer.status, answer.body["decision"]) == (200, "replay")
        assert answer.headers["Idempotent-Replayed"] == "true"
        assert (answer.body["result"], answer.body["provider_ref"]) == ({"ok": True}, "pi_1")
        assert agent.row(granted).replays == count
    assert agent.row(granted).version == 3


def test_a_gated_call_waits_and_asks_once(agent: Agent) -> None:
    live = Agent("live")
    request = live.call(tool=MAIL)
    answer, second = live.claim(request), live.claim(again(request))
    assert (answer.status, answer.body["decision"]) == (202, "await_approval")
    assert answer.body["approval"]["id"] == second.body["approval"]["id"]
    assert answer.body["retry_after_seconds"] >= 1
    row = live.row(answer)
    assert (row.state, row.waiting_on, row.attempts) == ("PENDING", "approval", 0)
    assert row.waiting_until == row.gate_expires_at


def test_an_executor_only_waits(agent: Agent) -> None:
    answer = agent.claim(tool=MAIL, executor="mcp-mail")
    assert (answer.status, answer.body["decision"]) == (202, "delegated")
    assert answer.body["approval"]["id"].startswith("apr_")
    assert agent.row(answer).state == states.PENDING


def test_unknown_waits_for_reconciliation(agent: Agent) -> None:
    request = agent.call(tool=MAIL)
    agent.report(agent.claim(request), "unknown")
    answer = agent.claim(again(request))
    assert (answer.status, answer.body["decision"]) == (202, "await_reconciliation")
    assert answer.body["retry_after_seconds"] >= 1


def test_a_tool_that_only_reads_is_released_by_its_next_claim(agent: Agent) -> None:
    request = agent.call(tool=SAFE)
    agent.report(agent.claim(request), "unknown")
    answer = agent.claim(again(request))
    assert (answer.status, answer.body["attempt_number"]) == (201, 2)
    assert agent.standings(answer) == ["no_effect", "live"]
