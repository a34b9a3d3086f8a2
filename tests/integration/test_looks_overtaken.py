"""What changes while a look is under way: the answer is judged by what is true when it comes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, connections

from operations import closing
from operations.errors import DomainError
from operations.models import Attempt, Tool
from reconcilers import engine, services, sweeps
from reconcilers.models import ProviderAccount
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.doubtful import PAST_SETTLING, a_simulator, a_world  # noqa: F401
from tests.support.reconciling import CHARGE, Call, look_now, make_due, publish, travel

pytestmark = pytest.mark.django_db

LIST = "/v1/payment_intents"


def run_engine() -> None:
    try:
        engine.run(10.0, patience_seconds=0.0)
    finally:
        connections.close_all()


@contextmanager
def during_a_look(call: Call) -> Iterator[None]:
    """The body runs while the provider takes its time with the list of this call's look."""
    simulator = call.world.simulator
    asked = len(simulator.requests())
    simulator.fault({"latency_ms": 1500}, method="GET", path=LIST, times=1)
    make_due(call)
    runner = threading.Thread(target=run_engine)
    runner.start()
    try:
        deadline = time.monotonic() + 20
        while not any(row["path"] == LIST for row in simulator.requests()[asked:]):
            assert time.monotonic() < deadline, "the list was never asked"
            time.sleep(0.02)
        yield
    finally:
        runner.join()
        simulator.clear_faults()


def one_read_before_the_last(call: Call) -> None:
    """Past its settle point, with one of the two reads made."""
    look_now(call)
    travel(call, PAST_SETTLING)
    look_now(call)
    assert call.operation.verdict["code"] == "one_more_read"
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE reconcilers_finding SET started_at = started_at - interval '6 seconds',"
            " ended_at = ended_at - interval '6 seconds' WHERE operation_id = %s",
            (call.id,),
        )


def test_closed_while_it_is_looked_for_it_is_never_released(world):
    call = world.doubtful()
    one_read_before_the_last(call)
    with during_a_look(call):
        closing.close(world.runtime, call.key)
    assert call.operation.state == "FAILED"
    with pytest.raises(DomainError) as refused:
        call.again()
    assert refused.value.code == "OPERATION_PREVIOUSLY_FAILED"


def test_an_idempotent_call_closed_meanwhile_is_not_replayed(world):
    call = world.doubtful(tool="idempotent")
    look_now_without_engine(call)
    with during_a_look(call):
        closing.close(world.runtime, call.key)
    assert call.operation.state == "UNKNOWN"


def look_now_without_engine(call: Call) -> None:
    sweeps.run_once()
    assert call.due


def test_a_call_that_was_reported_meanwhile_keeps_its_report(world):
    call = world.doubtful()
    one_read_before_the_last(call)
    with during_a_look(call):
        intent = call.send()
        call.report("committed", provider_ref=intent.id, result=b'{"ok":true}')
    assert call.operation.state == "COMMITTED"
    assert world.simulator.ledger(marker=call.key)["count"] == 1


def test_a_class_made_stricter_meanwhile_changes_no_call_that_ran_under_the_old_one(world):
    """And one sent from then on runs under the new one: its first look releases nothing."""
    call = world.doubtful(tool="idempotent")
    look_now_without_engine(call)
    with during_a_look(call):
        publish(idempotent=CHARGE)
    assert call.operation.tool_class == "idempotent"
    assert call.operation.state == "PENDING"
    assert Tool.objects.get(name="idempotent", superseded_in=None).tool_class == "unsafe"
    later = world.doubtful(tool="idempotent")
    look_now(later)
    assert later.operation.state == "UNKNOWN"


def test_an_account_paused_meanwhile_is_asked_no_more_after_this_look(world):
    call = world.doubtful()
    look_now(call)
    account = ProviderAccount.objects.get()
    with during_a_look(call):
        services.pause_account(account.id, actor="tests")
    asked = len(world.simulator.requests())
    make_due(call)
    run_engine()
    assert not [row for row in world.simulator.requests()[asked:] if row["method"] == "GET"]
    operation = call.operation
    assert operation.state == "UNKNOWN"
    assert "is paused" in operation.verdict["sentence"]
    assert call.due.due_at is not None
    services.resume_account(account.id, actor="tests")


def test_a_look_that_began_before_the_settle_point_and_ended_after_it_does_not_count(world):
    call = world.doubtful()
    look_now(call)
    # S is half a second from now, and the list answers after one and a half.
    with connection.cursor() as cur:
        cur.execute("SET session_replication_role = replica")
        cur.execute(
            "UPDATE operations_attempt SET emits_until = clock_timestamp()"
            " - interval '900 seconds' + interval '1 second' WHERE operation_id = %s",
            (call.id,),
        )
        cur.execute("SET session_replication_role = DEFAULT")
    with during_a_look(call):
        pass
    settles_at = Attempt.objects.get(operation=call.id).emits_until.timestamp() + 900
    looks = call.findings
    straddling = [
        look
        for look in looks
        if look.started_at.timestamp() < settles_at <= look.ended_at.timestamp()
    ]
    assert straddling
    assert call.operation.state == "UNKNOWN"
