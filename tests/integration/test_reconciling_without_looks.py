"""Nobody to ask, reads that are released at once, and looks before anything is sent."""

from uuid import uuid4

import pytest
from django.db import connection

from operations import sweeps as lapses
from reconcilers import engine, services
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.doubtful import a_simulator, a_world  # noqa: F401
from tests.support.reconciling import (
    CHARGE,
    World,
    look_now,
    publish,
)

pytestmark = pytest.mark.django_db


class TestNobodyToAsk:
    def test_a_tool_without_a_reconciler_needs_a_person_at_once(self, world):
        call = world.claim(tool="mail.send")
        call.report("unknown")
        look_now(call)
        operation = call.operation
        assert (operation.state, operation.verdict["kind"]) == ("UNKNOWN", "needs_human")
        assert operation.waiting_on == "person"
        assert "no provider account called mail" in operation.verdict["sentence"]
        assert call.findings == []

    def test_an_unregistered_tool_too(self, world):
        call = world.claim(tool="nobody.knows")
        call.report("unknown")
        look_now(call)
        assert "names no reconciler" in call.operation.verdict["sentence"]

    def test_a_tool_that_sets_no_marker_is_class_n(self, world):
        call = world.doubtful(tool="unmarked", effect=True)
        look_now(call)
        assert call.operation.verdict["kind"] == "needs_human"
        assert "does not put our key" in call.operation.verdict["sentence"]

    def test_an_account_that_comes_later_is_asked(self, world):
        other = World(world.simulator)
        call = other.doubtful(effect=True)
        look_now(call)
        assert call.operation.waiting_on == "person"
        assert call.due.lane == "none"
        other.account()
        engine.run(4.0, patience_seconds=0.0)
        assert call.operation.state == "COMMITTED"

    def test_two_accounts_of_a_kind_need_a_name(self, world):
        world.account("second", secret_key="sk_test_simsecond")
        publish(ambiguous=CHARGE | {"reconciler": ""})
        call = world.doubtful(tool="ambiguous")
        look_now(call)
        assert "There are 2 stripe accounts here" in call.operation.verdict["sentence"]

    def test_a_tool_that_only_reads_is_released_at_once(self, world):
        call = world.claim(tool="crm.read")
        call.report("unknown")
        look_now(call)
        assert call.operation.state == "PENDING"
        assert call.findings == []
        assert call.due is None


class TestLookFirst:
    def test_a_new_claim_of_an_unknown_call_waits_for_the_look(self, world):
        """P22: looked at first; what was never sent and what may have been differ."""
        sent, never = (
            world.doubtful(effect=True),
            world.claim(lease_seconds=1, send_token=None, fenced=True),
        )
        again = sent.again()
        assert again.answer["decision"] == "await_reconciliation"
        look_now(sent)
        assert sent.again().answer["decision"] == "replay"
        with connection.cursor() as cur:
            cur.execute("SELECT pg_sleep(1.1)")
        lapses.run_once()
        assert never.operation.state == "PENDING"
        assert world.simulator.ledger(marker=sent.key)["count"] == 1

    def test_every_unknown_has_a_reason_and_a_next_look_or_a_person(self, world):
        calls = [
            world.doubtful(),
            world.doubtful(tool="searched"),
            world.doubtful(tool="unmarked"),
            world.doubtful(tool="mail.send"),
        ]
        world.simulator.fault({"status": 429, "retry_after": 2}, method="GET")
        calls.append(World(world.simulator, secret_key=world.secret_key).doubtful())
        look_now(*calls)
        for call in calls:
            operation = call.operation
            assert operation.state == "UNKNOWN"
            assert operation.verdict["sentence"]
            assert operation.waiting_on == "person" or operation.waiting_until
            assert call.due.due_at

    def test_ask_again_is_due_now(self, world):
        call = world.doubtful()
        look_now(call)
        before = call.due.due_at
        asked = services.ask_again(call.id, actor="user:ana")
        assert asked is not None
        assert asked.can_be_asked
        assert call.due.due_at < before
        assert call.due.asked_by == "user:ana"
        assert services.ask_again(uuid4(), actor="user:ana") is None
