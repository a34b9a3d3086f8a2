"""What is found at the provider ends the doubt."""

import json
import time
from datetime import timedelta

import pytest

from operations.models import Event
from reconcilers import engine, services, sweeps
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.doubtful import PAST_SETTLING, a_simulator, a_world, two_reads  # noqa: F401
from tests.support.reconciling import (
    look_now,
    travel,
)

pytestmark = pytest.mark.django_db


class TestHits:
    def test_an_effect_that_exists_is_found_and_committed(self, world):
        call = world.doubtful(effect=True)
        look_now(call)
        operation = call.operation
        assert operation.state == "COMMITTED"
        assert operation.provider_ref.startswith("pi_")
        assert operation.effect_status == "succeeded"
        assert operation.verdict["kind"] == "committed"
        assert operation.verdict["sentence"].startswith("It happened: Stripe's list")
        (finding,) = call.findings
        assert (finding.lookup, finding.lookup_class, finding.outcome) == ("list", "B", "hit")
        assert finding.answer_sha256
        assert finding.request_id.startswith("req_")
        assert finding.mode == "test"
        assert json.loads(bytes(finding.answer))["ours"][0]["id"] == operation.provider_ref
        assert call.due is None
        assert call.incidents == []

    def test_the_event_says_what_it_rests_on(self, world):
        call = world.doubtful(effect=True)
        look_now(call)
        event = Event.objects.get(operation=call.id, type="operation.reconciled")
        assert event.actor == "system:reconciler"
        assert event.data["evidence"]["looks"][0]["class"] == "B"
        assert event.data["evidence"]["objects"][0]["id"] == call.operation.provider_ref

    def test_it_settles_within_seconds_of_the_doubt(self, world):
        """No hand on the queue: the first look comes by itself, about a second later."""
        call = world.doubtful(effect=True)
        sweeps.run_once()
        due = call.due
        assert due is not None
        assert due.due_at - due.since == timedelta(seconds=1)
        engine.run(6.0)
        assert call.operation.state == "COMMITTED"

    def test_an_id_that_the_runtime_reported_is_read(self, world):
        call = world.claim()
        intent = call.send()
        call.report("unknown", provider_ref=intent.id, error={"type": "crash", "message": ""})
        if call.operation.state == "UNKNOWN":
            look_now(call)
        assert call.operation.state == "COMMITTED"
        assert call.operation.provider_ref == intent.id

    def test_processing_is_in_flight_until_it_succeeds(self, world):
        world.simulator.fault({"processing": True, "processing_seconds": 3}, method="POST", times=1)
        call = world.doubtful(tool="idempotent", effect=True)
        look_now(call)
        operation = call.operation
        assert (operation.state, operation.verdict["kind"]) == ("UNKNOWN", "in_flight")
        assert operation.waiting_on == "look"
        assert "never sent again" in operation.verdict["sentence"]
        assert call.due.due_at is not None
        time.sleep(3)
        services.look(call.id, actor="user:ana", seconds=1)
        assert call.operation.state == "COMMITTED"
        assert [finding.lookup for finding in call.findings][-1] == "get"

    def test_another_amount_is_a_conflict_and_chooses_nothing(self, world):
        call = world.claim(tool="idempotent")
        call.send(amount=2_500)
        call.report("unknown")
        look_now(call)
        operation = call.operation
        assert (operation.state, operation.verdict["kind"]) == ("UNKNOWN", "conflict")
        assert operation.waiting_on == "person"
        assert call.incidents == ["effect_mismatch"]
        look_now(call)
        assert call.incidents == ["effect_mismatch"]

    def test_two_objects_with_one_key_are_a_duplicate(self, world):
        """P01: both objects are named, none is chosen, nothing is refunded."""
        call = world.claim(tool="idempotent")
        ids = {call.send().id}
        world.simulator.settings(stripe_honours_keys=False)
        ids.add(call.send().id)
        world.simulator.settings(stripe_honours_keys=True)
        call.report("unknown")
        look_now(call)
        operation = call.operation
        assert (operation.state, operation.verdict["kind"]) == ("UNKNOWN", "duplicate")
        assert set(operation.verdict["objects"]) == ids
        assert operation.waiting_on == "person"
        assert call.incidents == ["duplicate_effect"]
        details = operation.incidents.get().details
        assert {seen["id"] for seen in details["objects"]} == ids
        assert details["proposal"] == "compensation"


class TestSearchOnly:
    def test_a_search_that_lags_proves_nothing_and_a_hit_proves_it(self, world):
        """P07: empty now, found once the index has caught up."""
        world.simulator.settings(search_lag_seconds=3)
        call = world.doubtful(tool="searched", effect=True)
        look_now(call)
        operation = call.operation
        assert operation.state == "UNKNOWN"
        assert operation.verdict["code"] == "cannot_prove_absence"
        assert "cannot prove absence" in operation.verdict["sentence"]
        assert operation.verdict["next_check_at"]
        travel(call, PAST_SETTLING)
        two_reads(call)
        assert call.operation.state == "UNKNOWN"
        time.sleep(3)
        services.look(call.id, actor="user:ana", seconds=1)
        assert call.operation.state == "COMMITTED"
