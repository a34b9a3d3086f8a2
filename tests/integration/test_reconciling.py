"""From doubt to certainty, on the real services and the simulated provider."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection

from operations import closing, settling
from operations import sweeps as lapses
from operations.models import Event
from reconcilers import accounts, engine, services, sweeps
from reconcilers.exits import inside_retention
from reconcilers.models import DueLook, ProviderAccount
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.reconciling import (
    CHARGE,
    IDEMPOTENT,
    World,
    look_now,
    make_due,
    publish,
    travel,
)
from tests.support.simulated_provider import SimulatedProvider

pytestmark = pytest.mark.django_db

#: Behind the settle point of CHARGE: lease or permit 10 s + timeout 1 s + request lifetime 900 s.
PAST_SETTLING = 1000


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def world(simulator: SimulatedProvider) -> Iterator[World]:
    publish(
        charge=CHARGE,
        idempotent=IDEMPOTENT,
        searched=CHARGE | {"lookups": ["search"], "amount_pointer": ""},
        crm__read={"tool_class": "safe"},
        mail__send={"tool_class": "unsafe", "provider": "mail"},
        unmarked=CHARGE | {"marker": False},
    )
    here = World(simulator)
    here.account()
    yield here
    simulator.clear_faults()
    simulator.settings(search_lag_seconds=0, search_flap=0)


def two_reads(call):
    """Two looks that are far enough apart to agree, without the wait between them."""
    look_now(call)
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE reconcilers_finding SET started_at = started_at - interval '6 seconds',"
            " ended_at = ended_at - interval '6 seconds' WHERE operation_id = %s",
            (call.id,),
        )
    look_now(call)


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


class TestAccounts:
    def test_an_account_belongs_to_one_namespace(self, world):
        look_now(world.doubtful(effect=True))
        learnt = ProviderAccount.objects.get().external_id
        assert learnt == f"acct_{world.secret_key.removeprefix('sk_test_')}"
        other = World(world.simulator, secret_key=world.secret_key)
        with pytest.raises(accounts.AccountTaken, match="never meet"):
            other.account(account=learnt)
        other.account()
        call = other.doubtful(effect=True)
        look_now(call)
        assert call.operation.state == "UNKNOWN"
        assert "already belongs to a namespace" in call.operation.verdict["sentence"]

    def test_a_paused_account_is_not_asked_and_says_so(self, world):
        account = ProviderAccount.objects.get()
        services.pause_account(account.id, actor="user:ana")
        call = world.doubtful(effect=True)
        look_now(call)
        assert "is paused" in call.operation.verdict["sentence"]
        assert call.findings == []
        services.resume_account(account.id, actor="user:ana")
        engine.run(4.0, patience_seconds=0.0)
        assert call.operation.state == "COMMITTED"

    def test_secrets_are_sealed_and_shown_masked(self, world):
        account = ProviderAccount.objects.get()
        assert world.secret_key.encode() not in bytes(account.secrets)
        shown = json.dumps(accounts.described(account), default=str)
        assert world.secret_key not in shown
        assert "sk_test_…" in accounts.described(account)["secrets"]["secret_key"]

    def test_the_ring_rotates(self, world, settings):
        from cryptography.fernet import Fernet

        old, new = settings.COUNTERSIGN_KEYRING[0], Fernet.generate_key().decode()
        settings.COUNTERSIGN_KEYRING = [new, old]
        assert accounts.rotate_secrets() == 1
        settings.COUNTERSIGN_KEYRING = [new]
        account = ProviderAccount.objects.get()
        assert accounts.access_to(account).secrets["secret_key"] == world.secret_key
        settings.COUNTERSIGN_KEYRING = [old]
        call = world.doubtful()
        look_now(call)
        assert "not in COUNTERSIGN_KEYRING" in call.operation.verdict["sentence"]


def test_due_looks_are_kept_only_while_there_is_something_to_ask(world):
    call = world.doubtful(effect=True)
    look_now(call)
    assert not DueLook.objects.exists()
