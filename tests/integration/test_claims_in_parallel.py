"""Many senders at once, on a database whose commits are real: exactly one may execute."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import connection

from operations import states
from operations.errors import DomainError
from operations.models import Operation, Run, Waiter
from tests.support import claiming
from tests.support.claiming import CHARGE, MAIL, PUT, Agent
from tests.support.committed import _django_db_helper  # noqa: F401

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What each of `count` threads got; a refusal is its code."""
    start = threading.Barrier(count)
    results: list[Any] = [None] * count

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = work(number)
        except DomainError as error:
            results[number] = error.code
        except BaseException as error:  # noqa: BLE001 -- told to the test itself
            results[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    defects = [result for result in results if isinstance(result, BaseException)]
    assert not defects, defects
    return results


def decision(answer: Any) -> str:
    return answer if isinstance(answer, str) else answer.body["decision"]


@pytest.mark.parametrize("fenced", [True, False])
def test_64_claims_of_one_key_give_exactly_one_execute(agent: Agent, fenced: bool) -> None:
    request = agent.call(fenced=fenced)

    def work(number: int) -> str:
        mine = dataclasses.replace(request, attempt_id=f"a{number}")
        return decision(agent.claim(mine))

    assert Counter(at_once(64, work)) == {"execute": 1, "ATTEMPT_IN_FLIGHT": 63}
    op = Operation.objects.get(namespace=agent.namespace)
    assert (op.state, op.attempts, op.version) == ("INVOKED", 1, 2)
    assert Run.objects.filter(namespace=agent.namespace).count() == 1


def test_64_claims_after_a_lapse_give_exactly_one_execute(agent: Agent) -> None:
    request = agent.call(fenced=True)
    granted = agent.claim(request)
    claiming.let_lapse(agent.row(granted))

    def work(number: int) -> str:
        return decision(agent.claim(dataclasses.replace(request, attempt_id=f"a{number}")))

    assert Counter(at_once(32, work)) == {"execute": 1, "ATTEMPT_IN_FLIGHT": 31}
    assert agent.standings(granted) == ["not_sent", "live"]


def test_two_processes_with_one_attempt_id_get_one_permit(agent: Agent) -> None:
    request = agent.call(tool=MAIL, fenced=True)

    def work(number: int) -> Any:
        answer = agent.claim(dataclasses.replace(request, send_token=f"token {number}"))
        return answer.body["send_within_ms"]

    results = at_once(8, work)
    assert sum(isinstance(result, int) for result in results) == 1
    assert results.count("ATTEMPT_IN_FLIGHT") == 7
    fenced = agent.call(tool=MAIL, fenced=True)
    granted = agent.claim(fenced)
    asked = at_once(8, lambda number: agent.sending(granted, f"token {number}")["send_within_ms"])
    assert sum(isinstance(result, int) for result in asked) == 1
    assert asked.count("SEND_TOKEN_TAKEN") == 7


def test_a_permit_and_a_sweep_never_both_win(agent: Agent) -> None:
    for _ in range(10):
        granted = agent.claim(tool=MAIL, fenced=True)
        claiming.let_lapse(agent.row(granted))

        def work(number: int, granted: Any = granted) -> Any:
            return claiming.sweep() if number else agent.sending(granted, "t")

        refusal = at_once(2, work)[0]
        assert refusal == "LEASE_LOST"
        assert agent.standings(granted) == ["not_sent"]


def test_outcomes_that_race_are_all_heard(agent: Agent) -> None:
    for _ in range(5):
        granted = agent.claim(tool=MAIL)

        def work(number: int, granted: Any = granted) -> Any:
            if number % 2:
                return agent.report(granted, "unknown")["operation"]["state"]
            return agent.report(granted, "committed", provider_ref="pi_1")["operation"]["state"]

        at_once(8, work)
        row = agent.row(granted)
        assert (row.state, row.provider_ref, agent.standings(granted)) == (
            states.COMMITTED,
            "pi_1",
            ["committed"],
        )
        assert agent.incidents(granted) == []


def test_a_budget_is_never_overspent(agent: Agent) -> None:
    request = agent.call(tool=CHARGE, budget_max_spend_minor=100_000, budget_currency="USD")

    def work(number: int) -> str:
        return decision(agent.claim(dataclasses.replace(request, tool_call_id=f"call_{number}")))

    assert Counter(at_once(16, work)) == {"execute": 4, "BUDGET_EXCEEDED": 12}


def test_one_trigger_makes_one_run(agent: Agent) -> None:
    results = at_once(12, lambda _: decision(agent.claim(trigger="evt_1")))
    assert Counter(results) == {"execute": 1, "DUPLICATE_RUN": 11}
    assert Run.objects.filter(namespace=agent.namespace).count() == 1


def test_one_key_for_many_calls_is_granted_once(agent: Agent) -> None:
    results = at_once(12, lambda number: decision(agent.claim(idem_key="one-key", step=number)))
    assert Counter(results) == {"execute": 1, "KEY_COLLISION": 11}


def test_only_one_compensation_is_made(agent: Agent) -> None:
    original = agent.claim(tool=PUT)
    agent.report(original, "committed")
    key = original.body["idem_key"]
    results = at_once(8, lambda _: decision(agent.claim(tool=MAIL, compensates=key)))
    assert Counter(results) == {"execute": 1, "COMPENSATION_EXISTS": 7}


def test_everything_at_once_on_one_run_never_deadlocks(agent: Agent) -> None:
    """Claims, reports, sweeps, compensations and the end of the run, over and over."""
    from operations import closing, rows

    request = agent.call(tool=MAIL, budget_max_steps=1_000)
    first = agent.claim(request)
    run = agent.row(first).run_id

    def work(number: int) -> str:
        for turn in range(6):
            call = dataclasses.replace(
                request, tool_call_id=f"call_{(number + turn) % 5}", attempt_id=f"{number}.{turn}",
                compensates=first.body["idem_key"] if number == 1 else None,
            )  # fmt: skip
            try:
                answer = agent.claim(call)
                if answer.status == 201:
                    claiming.let_lapse(agent.row(answer))
                    agent.report(answer, ("committed", "unknown", "failed")[turn % 3])
            except DomainError:
                pass
            claiming.sweep()
            if number == 2 and turn == 5:
                from django.db import transaction

                with transaction.atomic(), rows.hot_cursor() as cur:
                    closing.close_run(cur, run, "finished", actor="user:1")
        return "done"

    assert Counter(at_once(8, work)) == {"done": 8}


def test_a_plain_call_outlives_the_loss_of_its_connection(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    for work in (
        lambda: agent.claim(tool=MAIL).status == 201,
        lambda: agent.report(granted, "committed")["operation"]["state"] == "COMMITTED",
    ):
        connection.ensure_connection()
        pid = connection.connection.info.backend_pid
        with psycopg.connect(**address(), autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        assert work()
    assert Operation.objects.filter(namespace=agent.namespace).count() == 2


def address() -> dict[str, Any]:
    settings = connection.get_connection_params()
    return {name: settings[name] for name in ("dbname", "user", "host") if settings.get(name)}


def test_a_wake_up_is_sent_only_where_somebody_waits(agent: Agent) -> None:
    with psycopg.connect(**address(), autocommit=True) as listener:
        listener.execute("LISTEN operation_changed")
        awaited, ignored = agent.claim(tool=MAIL), agent.claim(tool=MAIL)
        op = agent.row(awaited)
        Waiter.objects.create(operation=op, process="p", expires_at=op.created_at)
        agent.report(ignored, "committed")
        agent.report(awaited, "committed")
        told = [note.payload for note in listener.notifies(timeout=2, stop_after=1)]
        told += [note.payload for note in listener.notifies(timeout=0.2)]
    assert told == [f"{op.id}:3"]
