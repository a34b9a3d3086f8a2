"""When nothing was found, what that proves, and what follows late."""

from datetime import timedelta

import pytest
from django.db import connection

from operations import closing, settling
from operations.models import Event
from reconcilers import engine
from reconcilers.models import ProviderAccount
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.doubtful import PAST_SETTLING, a_simulator, a_world, two_reads  # noqa: F401
from tests.support.reconciling import (
    look_now,
    make_due,
    travel,
)

pytestmark = pytest.mark.django_db


class TestAbsence:
    def test_an_unsafe_call_waits_for_its_settle_point_and_is_then_released(self, world):
        call = world.doubtful()
        look_now(call)
        operation = call.operation
        assert (operation.state, operation.verdict["kind"]) == ("UNKNOWN", "waiting")
        assert operation.waiting_on == "look"
        assert operation.waiting_until == call.due.due_at
        assert operation.verdict["settles_at"]
        assert "can be trusted from" in operation.verdict["sentence"]

        travel(call, PAST_SETTLING)
        look_now(call)
        assert call.operation.verdict["code"] == "one_more_read"
        gap = call.due.due_at - call.findings[-1].started_at
        assert timedelta(seconds=5) < gap < timedelta(seconds=30)

        two_reads(call)
        operation = call.operation
        assert operation.state == "PENDING"
        assert operation.verdict["kind"] == "absent"
        event = Event.objects.get(operation=call.id, type="operation.released")
        assert event.data["reason"] == "absent"
        assert event.data["evidence"]["proved_by_class"] == "B"
        again = call.again()
        assert again.answer["decision"] == "execute"
        assert again.answer["attempt_number"] == 2

    def test_the_settle_point_is_the_domains_t_emit_and_the_providers_lifetime(self, world):
        call = world.doubtful()
        look_now(call)
        with connection.cursor() as cur:
            emits_until = settling.t_emit(cur, call.id)
        from reconcilers import dossiers

        with connection.cursor() as cur:
            facts = dossiers.load(cur, [call.id])[call.id].facts
        assert facts.emits_until == emits_until
        assert emits_until is not None
        assert facts.settles_at() == emits_until + timedelta(seconds=900)

    def test_absence_is_revisable_a_late_effect_is_found_again(self, world):
        call = world.doubtful()
        travel(call, PAST_SETTLING)
        two_reads(call)
        assert call.operation.state == "PENDING"
        due = call.due
        assert due.purpose == "recheck"
        make_due(call)
        call.send()
        engine.run(4.0, patience_seconds=0.0)
        assert call.operation.state == "COMMITTED"
        assert call.operation.verdict["kind"] == "committed_late"
        assert "late_effect" in call.incidents

    def test_looks_go_on_at_24_and_72_hours(self, world):
        call = world.doubtful()
        travel(call, PAST_SETTLING)
        two_reads(call)
        since = call.due.since
        for hours in (24, 72):
            assert (
                timedelta(0)
                < call.due.due_at - (since + timedelta(hours=hours))
                < timedelta(seconds=5)
            )
            with connection.cursor() as cur:
                cur.execute(
                    "UPDATE reconcilers_duelook SET since = since - make_interval(hours => %s),"
                    " due_at = clock_timestamp() WHERE operation_id = %s",
                    (hours if hours == 24 else 48, call.id),
                )
            since = call.due.since
            engine.run(3.0, patience_seconds=0.0)
        assert call.due is None
        assert call.operation.state == "PENDING"

    def test_a_closed_intent_ends_failed_and_is_never_released(self, world):
        call = world.doubtful(tool="idempotent")
        closing.close(world.runtime, call.key)
        look_now(call)
        assert call.operation.state == "UNKNOWN"
        travel(call, PAST_SETTLING)
        two_reads(call)
        operation = call.operation
        assert operation.state == "FAILED"
        assert operation.failure in {"absent", "cancelled"}
        assert call.due.purpose == "recheck"

    def test_an_unfenced_unsafe_call_is_left_to_a_person(self, world):
        call = world.claim(send_token=None, fenced=False, lease_seconds=1)
        call.report("unknown")
        travel(call, PAST_SETTLING)
        two_reads(call)
        operation = call.operation
        assert operation.state == "UNKNOWN"
        assert operation.waiting_on == "person"
        assert operation.verdict["code"] == "unfenced"
        assert "not fenced" in operation.verdict["sentence"]

    def test_an_incomplete_list_proves_nothing(self, world):
        """C01: a page that fails leaves an incomplete look, whatever the other pages showed."""
        call = world.doubtful()
        for _ in range(12):
            world.claim().send()
        travel(call, PAST_SETTLING)
        world.simulator.fault({"page_size": 5}, method="GET", path="/v1/payment_intents")
        world.simulator.fault({"status": 500}, method="GET", contains="starting_after")
        world.simulator.fault({"status": 403}, method="GET", path="/v1/payment_intents/search")
        two_reads(call)
        operation = call.operation
        assert (operation.state, operation.verdict["kind"]) == ("UNKNOWN", "cannot_look")
        assert {finding.outcome for finding in call.findings} == {"cannot_look"}
        assert not any(finding.complete for finding in call.findings if finding.lookup == "list")

    def test_after_a_500_absence_takes_a_day(self, world):
        call = world.claim()
        call.report("unknown", error={"type": "api_error", "message": "", "http_status": 500})
        travel(call, PAST_SETTLING)
        two_reads(call)
        assert call.operation.verdict["kind"] == "waiting"
        travel(call, 24 * 3600)
        two_reads(call)
        assert call.operation.state == "PENDING"

    def test_much_money_is_released_by_a_signature_only(self, world):
        ProviderAccount.objects.update(
            config={**ProviderAccount.objects.get().config, "signed_release_above": {"usd": 100}}
        )
        call = world.doubtful()
        travel(call, PAST_SETTLING)
        two_reads(call)
        operation = call.operation
        assert (operation.state, operation.verdict["kind"]) == ("UNKNOWN", "absent")
        assert operation.waiting_on == "person"
        assert operation.verdict["code"] == "signed_release_needed"
