"""Races: real threads, real transactions."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from approvals import decisions
from approvals.errors import Refused
from approvals.models import Decision
from tests.support import approving
from tests.support.committed import _django_db_helper  # noqa: F401

pytestmark = pytest.mark.django_db


def together(*work: Callable[[], Any]) -> list[Any]:
    """Run all at once; what each returned or raised."""
    results: list[Any] = [None] * len(work)
    gate = threading.Barrier(len(work))

    def run(position: int) -> None:
        gate.wait()
        try:
            results[position] = work[position]()
        except Exception as error:  # noqa: BLE001 -- what was raised is the result
            results[position] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_n35_two_valid_answers_to_one_statement_give_one_decision() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = decisions.start(reviewer.user, "s", asked.id, "approve", key=reviewer.key)
    answers = [reviewer.sign(ceremony), reviewer.sign(ceremony)]

    def finish(answer: Any) -> Any:
        return decisions.finish(
            reviewer.user, "s", ceremony.statement_id, answer, approval_id=asked.id
        )

    results = together(*(lambda a=answer: finish(a) for answer in answers))
    refusals = [one for one in results if isinstance(one, Refused)]
    assert len(refusals) == 1, results
    assert refusals[0].status == 409
    assert Decision.objects.count() == 1


def test_a_double_click_gives_one_record() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = decisions.start(reviewer.user, "s", asked.id, "approve", key=reviewer.key)
    answer = reviewer.sign(ceremony)

    def finish() -> Any:
        return decisions.finish(
            reviewer.user, "s", ceremony.statement_id, answer, approval_id=asked.id
        )

    results = together(finish, finish, finish)
    assert {one.decision_id for one in results} == {ceremony.decision_id}
    assert sorted(one.replayed for one in results) == [False, True, True]


def test_an_approval_and_a_denial_at_once_always_end_denied() -> None:
    yes, no = approving.person(), approving.person()
    for _ in range(5):
        asked = approving.ask()
        together(_deciding(asked, yes, "approve"), _deciding(asked, no, "deny"))
        op = approving.operation(asked.op_id)
        assert (op.state, op.failure) == ("FAILED", "denied")


def _deciding(
    asked: approving.Asked, who: approving.Person, verdict: str
) -> Callable[[], decisions.Decided]:
    ceremony = decisions.start(who.user, "s", asked.id, verdict, key=who.key)
    answer = who.sign(ceremony)
    return lambda: decisions.finish(
        who.user, "s", ceremony.statement_id, answer, approval_id=asked.id
    )
