"""Sending again under one key, and counting what was sent twice."""

from datetime import timedelta

import pytest
from django.db import connection

from operations.models import Event
from reconcilers import engine, sweeps
from reconcilers.exits import inside_retention
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.doubtful import PAST_SETTLING, a_simulator, a_world, two_reads  # noqa: F401
from tests.support.reconciling import (
    look_now,
    make_due,
    travel,
)

pytestmark = pytest.mark.django_db


class TestReplay:
    def test_one_finished_look_releases_a_call_that_the_provider_dedupes(self, world):
        call = world.doubtful(tool="idempotent")
        look_now(call)
        operation = call.operation
        assert operation.state == "PENDING"
        event = Event.objects.get(operation=call.id, type="operation.released")
        assert event.data["reason"] == "replay"
        again = call.again()
        assert again.answer["decision"] == "execute"
        assert again.answer["first_sent_at"]
        intent = again.send()
        again.report("committed", provider_ref=intent.id, result=b'{"ok":true}')
        assert call.operation.state == "COMMITTED"
        assert world.simulator.ledger(marker=call.key)["count"] == 1

    def test_a_late_first_send_and_its_replay_are_one_effect_that_is_counted(self, world):
        """The first request commits while the call is being released: the key dedupes."""
        call = world.doubtful(tool="idempotent")
        look_now(call)
        first = call.send()
        again = call.again()
        second = again.send()
        assert second.id == first.id
        again.report("committed", provider_ref=second.id)
        assert call.operation.state == "COMMITTED"
        make_due(call)
        engine.run(4.0, patience_seconds=0.0)
        assert call.incidents == []
        assert call.due.purpose == "recheck"
        assert call.findings[-1].outcome == "hit"

    def test_a_failed_look_releases_nothing(self, world):
        world.simulator.fault({"status": 503}, method="GET")
        call = world.doubtful(tool="idempotent")
        look_now(call)
        operation = call.operation
        assert (operation.state, operation.verdict["kind"]) == ("UNKNOWN", "cannot_look")
        assert operation.waiting_on == "look"
        assert "503 from Stripe" in operation.verdict["sentence"]
        assert call.due.failures >= 1
        world.simulator.clear_faults()
        make_due(call)
        engine.run(4.0, patience_seconds=0.0)
        assert call.operation.state == "PENDING"

    def test_after_retention_the_same_key_is_a_new_request_and_is_refused(self, world):
        call = world.doubtful(tool="idempotent")
        with connection.cursor() as cur:
            cur.execute(
                "UPDATE operations_operation SET first_sent_at = first_sent_at - interval '26 h',"
                " key_expires_at = key_expires_at - interval '26 h' WHERE id = %s",
                (call.id,),
            )
        look_now(call)
        assert call.operation.state == "UNKNOWN"

    def test_our_window_is_the_one_that_permits_are_refused_by(self, world):
        from operations import catalogue, permits, rows
        from reconcilers import dossiers

        call = world.doubtful(tool="idempotent")
        with connection.cursor() as cur:
            facts = dossiers.load(cur, [call.id])[call.id].facts
            op = rows.read(cur, op_id=call.id)
            assert op is not None
            end = permits.key_window_end(op, catalogue.facts_of(cur, op.tool, op.tool_version))
        assert end is not None
        assert inside_retention(facts, end - timedelta(seconds=1))
        assert not inside_retention(facts, end)


class TestTwoSends:
    def test_two_effects_of_one_operation_are_counted_even_when_committed(self, world):
        """Rule 6: after two permits to send, effects are counted again at S."""
        call = world.doubtful()
        travel(call, PAST_SETTLING)
        two_reads(call)
        again = call.again()
        second = again.send()
        again.report("committed", provider_ref=second.id)
        world.simulator.settings(stripe_honours_keys=False)
        call.send()
        world.simulator.settings(stripe_honours_keys=True)
        make_due(call)
        engine.run(4.0, patience_seconds=0.0)
        assert call.operation.state == "COMMITTED"
        assert "duplicate_effect" in call.incidents

    def test_a_second_permit_is_found_by_the_sweep_alone(self, world):
        call = world.claim(tool="idempotent")
        call.report("failed", effect="none", error={"type": "refused"})
        again = call.again()
        intent = again.send()
        again.report("committed", provider_ref=intent.id)
        assert not call.due
        assert sweeps.enqueue_recounts() == 1
        assert sweeps.enqueue_recounts() == 0
        assert call.due.purpose == "recheck"
