"""The claim table, refusals: every code, and the order in which claims are checked."""

import dataclasses
from typing import Any

import pytest

from operations import closing
from operations.errors import KINDS, DomainError
from operations.models import Operation, Run
from tests.support import claiming
from tests.support.claiming import CHARGE, MAIL, PUT, Agent, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def again(request: Any, **said: Any) -> Any:
    """The same call, claimed by another attempt unless the test says otherwise."""
    return dataclasses.replace(request, **{"attempt_id": "another", **said})


def test_a_live_lease_refuses_everybody_else(agent: Agent) -> None:
    request = agent.call()
    agent.claim(request)
    for other in (again(request), again(request, attempt_id=None)):
        with refused("ATTEMPT_IN_FLIGHT") as error:
            agent.claim(other)
        assert error.retryable
        assert error.retry_after_seconds >= 1
    agent.runtime = agent.another_key()
    with refused("ATTEMPT_IN_FLIGHT"):
        agent.claim(request)


@pytest.mark.parametrize(
    "other", [{"args": {"amount": 1}, "args_raw": b'{"amount": 1}'}, {"tool": "another"}]
)
def test_a_key_with_other_args_or_tool_is_refused_and_noted_once(
    agent: Agent, other: dict[str, Any]
) -> None:
    request = agent.call()
    first = agent.claim(request)
    version = agent.row(first).version
    for _ in range(2):
        with refused("IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS") as error:
            agent.claim(again(request, **other))
        assert not error.retryable
    row = agent.row(first)
    assert agent.incidents(first) == ["args_conflict"]
    assert row.incidents.get().times_seen == 2
    assert (row.version, row.state) == (version + 1, "INVOKED")
    assert row.args_fingerprint == first.body["args_fingerprint"]


def test_other_args_are_refused_whatever_the_state(agent: Agent) -> None:
    for outcome in ("committed", "unknown"):
        request = agent.call(tool=MAIL)
        agent.report(agent.claim(request), outcome)
        with refused("IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS"):
            agent.claim(again(request, args=[1], args_raw=b"[1]"))


def test_one_key_for_two_calls_and_two_keys_for_one_collide(agent: Agent) -> None:
    mine = agent.call(idem_key="my-key")
    answer = agent.claim(mine)
    with refused("KEY_COLLISION"):
        agent.claim(again(mine, step=2))
    with refused("KEY_COLLISION"):
        agent.claim(again(mine, idem_key="my-other-key"))
    with refused("KEY_COLLISION"):
        agent.claim(again(mine, idem_key=None))
    assert agent.incidents(answer) == ["args_conflict"] * 3
    plain = agent.call()
    agent.claim(plain)
    with refused("KEY_COLLISION"):
        agent.claim(again(plain, idem_key="brought-later"))
    assert Operation.objects.filter(namespace=agent.namespace).count() == 2


def test_failed_is_final_and_says_why(agent: Agent) -> None:
    request = agent.call(tool=MAIL)
    granted = agent.claim(request)
    agent.nothing_happened(granted, permanent=True)
    with refused("OPERATION_PREVIOUSLY_FAILED") as error:
        agent.claim(again(request))
    assert error.extra["failure"] == "provider_declined"
    assert not error.retryable


def test_a_trigger_belongs_to_one_run(agent: Agent) -> None:
    first = agent.call(trigger="evt_9")
    agent.claim(first)
    second = agent.call(trigger="evt_9")
    with refused("DUPLICATE_RUN") as error:
        agent.claim(second)
    assert error.extra["run_id"] == first.run_id
    assert not Run.objects.filter(run_id=second.run_id).exists()
    assert agent.claim(again(first, tool_call_id="call_2")).status == 201
    with_another_run = agent.call()
    agent.claim(with_another_run)
    with refused("DUPLICATE_RUN"):
        agent.claim(again(with_another_run, tool_call_id="call_2", trigger="evt_9"))
    assert Operation.objects.filter(run__run_id=with_another_run.run_id).count() == 1


def test_a_trigger_is_adopted_by_a_run_that_had_none(agent: Agent) -> None:
    request = agent.call()
    agent.claim(request)
    agent.claim(again(request, tool_call_id="call_2", trigger="evt_1"))
    assert Run.objects.get(run_id=request.run_id).trigger == "evt_1"


def test_a_wrong_fingerprint_is_refused_and_leaves_nothing(agent: Agent) -> None:
    with refused("FINGERPRINT_MISMATCH"):
        agent.claim(args_fingerprint="jcs-sha256:" + "0" * 64)
    assert not Operation.objects.filter(namespace=agent.namespace).exists()


def test_the_key_is_checked_before_the_fingerprint(agent: Agent) -> None:
    mine = agent.call(idem_key="my-key")
    agent.claim(mine)
    with refused("KEY_COLLISION"):
        agent.claim(again(mine, step=2, args_fingerprint="jcs-sha256:" + "0" * 64))


def test_a_call_without_id_or_position_is_refused(agent: Agent) -> None:
    with refused("TOOL_CALL_ID_MISSING"):
        agent.claim(tool_call_id="")
    by_position = agent.row(agent.claim(tool_call_id="", position=2))
    assert by_position.tool_call_id == "#2"


def test_ids_of_ours_are_reserved(agent: Agent) -> None:
    with refused("VALIDATION_ERROR") as error:
        agent.claim(tool_call_id="call_1~edit1")
    assert error.extra["pointer"] == "/tool_call_id"


def test_money_of_another_currency_than_the_budgets_is_refused(agent: Agent) -> None:
    budget: dict[str, Any] = {"budget_max_spend_minor": 100_000, "budget_currency": "EUR"}
    with refused("VALIDATION_ERROR") as error:
        agent.claim(tool=CHARGE, **budget)
    assert error.extra["pointer"] == "/args/currency"
    assert not Operation.objects.filter(namespace=agent.namespace).exists()


def test_every_granted_attempt_counts(agent: Agent) -> None:
    request = agent.call(tool=MAIL, fenced=True)
    for number in range(1, 6):
        answer = agent.claim(again(request, attempt_id=f"t{number}"))
        assert answer.body["attempt_number"] == number
        claiming.let_lapse(agent.row(answer))
    with refused("ATTEMPTS_EXHAUSTED") as error:
        agent.claim(again(request))
    assert not error.retryable
    row = agent.row(answer)
    assert (row.state, row.failure, row.closed) == ("FAILED", "attempts_exhausted", True)
    assert agent.incidents(answer) == ["attempts_exhausted"]
    with refused("OPERATION_PREVIOUSLY_FAILED"):
        agent.claim(again(request))


def test_exhaustion_with_an_attempt_in_doubt_is_unknown_and_closed(agent: Agent) -> None:
    request = agent.call(tool=PUT)
    for number in range(1, 4):
        answer = agent.claim(again(request, attempt_id=f"t{number}"))
        agent.report(answer, "unknown")
        claiming.release(agent.row(answer), "replay")
    with refused("ATTEMPTS_EXHAUSTED"):
        agent.claim(again(request))
    row = agent.row(answer)
    assert (row.state, row.closed, row.closed_as) == ("UNKNOWN", True, "attempts_exhausted")
    assert agent.claim(again(request)).body["decision"] == "await_reconciliation"


def test_the_third_failure_for_a_goal_is_the_last(agent: Agent) -> None:
    request = agent.call(tool=MAIL, goal="renew cus_42")
    for number in range(3):
        granted = agent.claim(again(request, tool_call_id=f"call_{number}"))
        agent.nothing_happened(granted, permanent=True)
    with refused("GOAL_ATTEMPTS_EXHAUSTED") as error:
        agent.claim(again(request, tool_call_id="one more"))
    row = agent.row(error.extra["idem_key"])
    assert (row.state, row.failure) == ("FAILED", "goal_exhausted")
    assert agent.incidents(row.idem_key) == ["goal_exhausted"]
    assert agent.claim(again(request, tool_call_id="x", goal="another")).status == 201
    assert agent.claim(again(request, tool_call_id="y", tool=PUT)).status == 201


def test_steps_are_counted_once_each(agent: Agent) -> None:
    request = agent.call(budget_max_steps=2)
    for step, call in ((1, "a"), (1, "b"), (2, "a")):
        assert agent.claim(again(request, step=step, tool_call_id=call)).status == 201
    with refused("BUDGET_EXCEEDED") as error:
        agent.claim(again(request, step=3))
    row = agent.row(error.extra["idem_key"])
    assert (row.state, row.failure) == ("FAILED", "budget_exceeded")
    assert agent.incidents(row.idem_key) == ["budget_exceeded"]
    # What the budget refused has used no step, and the first budget stands.
    wider = again(request, step=2, tool_call_id="c", budget_max_steps=99)
    assert agent.claim(wider).status == 201
    with refused("BUDGET_EXCEEDED"):
        agent.claim(again(wider, step=4))


def test_spend_counts_what_may_have_happened(agent: Agent) -> None:
    budget = {"budget_max_spend_minor": 60_000, "budget_currency": "USD"}
    request = agent.call(tool=CHARGE, **budget)
    first = agent.claim(request)
    second = agent.claim(again(request, tool_call_id="b"))
    with refused("BUDGET_EXCEEDED"):
        agent.claim(again(request, tool_call_id="c"))
    agent.report(first, "unknown")
    with refused("BUDGET_EXCEEDED"):
        agent.claim(again(request, tool_call_id="d"))
    agent.nothing_happened(second, permanent=True)
    assert agent.claim(again(request, tool_call_id="e")).status == 201


def test_a_run_that_had_no_budget_takes_the_first_it_is_given(agent: Agent) -> None:
    request = agent.call()
    agent.claim(request)
    with refused("BUDGET_EXCEEDED"):
        agent.claim(again(request, step=2, budget_max_steps=1))


def test_state_is_answered_before_trigger_goal_and_budget(agent: Agent) -> None:
    agent.claim(trigger="evt_1")
    request = agent.call()
    agent.report(agent.claim(request), "committed")
    replayed = agent.claim(again(request, trigger="evt_1", budget_max_steps=0))
    assert replayed.body["decision"] == "replay"


def test_attempts_are_counted_before_the_trigger(agent: Agent) -> None:
    agent.claim(trigger="evt_1")
    request = agent.call(tool=PUT, fenced=True)
    for number in range(3):
        claiming.let_lapse(agent.row(agent.claim(again(request, attempt_id=str(number)))))
    with refused("ATTEMPTS_EXHAUSTED"):
        agent.claim(again(request, trigger="evt_1"))


def test_what_belongs_to_another_scope_does_not_exist(agent: Agent) -> None:
    request = agent.call()
    agent.claim(request)
    assert Agent(namespace="elsewhere").claim(request).status == 201
    assert Agent("live", agent.namespace).claim(request).status == 201
    answer = agent.claim(again(agent.call(), step=5))
    with refused("NOT_FOUND"):
        closing.close(Agent().runtime, answer.body["idem_key"])


def test_the_same_id_at_another_step_is_another_operation_with_a_hint(agent: Agent) -> None:
    request = agent.call()
    first = agent.claim(request)
    second = agent.claim(again(request, step=2))
    assert first.body["idem_key"] != second.body["idem_key"]
    assert (agent.row(first).flags, agent.row(second).flags) == ([], ["id_reused"])


def test_another_version_inside_a_run_is_flagged(agent: Agent) -> None:
    request = agent.call(prompt_version="p18", agent_version="1")
    agent.claim(request)
    later = again(request, step=2, tool_call_id="call_2", prompt_version="p19")
    changed = agent.claim(later)
    row = agent.row(changed)
    assert row.attempt_set.get().versions == {"prompt_version": "p19"}
    assert (row.flags, agent.incidents(changed)) == (["version_changed"], ["version_changed"])
    assert changed.body["operation"]["version"] == row.version
    assert row.run.prompt_version == "p18"


def test_every_code_says_whether_to_try_again() -> None:
    for code, kind in KINDS.items():
        error = DomainError(code)
        assert isinstance(error.retryable, bool)
        assert error.retryable or error.retry_after_seconds is None, code
        assert kind.status in (404, 409, 422, 429) or (kind.status == 503 and error.retryable)
