"""Stripe's webhooks, delivered by HTTP by the simulated provider: from the door to the verdict."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.db import connection

from crashlab.provider.webhooks import signature
from operations.canonical import derive_key
from operations.models import Event, InboxItem
from reconcilers import inbox
from reconcilers.models import DueLook, Finding, HookRefusal, ProviderEvent
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.front_door import FrontDoor
from tests.support.reconciling import CHARGE, IDEMPOTENT, World, look_now, publish, travel
from tests.support.simulated_provider import SimulatedProvider

pytestmark = pytest.mark.django_db

SECRET = "whsec_of_the_tests"
PAST_SETTLING = 1000


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def door() -> Iterator[FrontDoor]:
    door = FrontDoor()
    yield door
    door.close()


class Hooked(World):
    """A world whose account has an address, and a provider that delivers to it."""

    def hook(self, door: FrontDoor, **changes: Any) -> "Hooked":
        self.stripe_account = self.account(webhook_secret=SECRET, **changes)
        self.url = f"{door.url}/hooks/stripe/{self.stripe_account.id}"
        self.target = {
            "url": self.url,
            "secret": SECRET,
            "account": f"acct_{self.secret_key.removeprefix('sk_test_')}",
        }
        self.simulator.settings(webhooks=[self.target])
        return self

    def deliver(self, event: Any, *, secret: str = SECRET, **headers: str) -> httpx.Response:
        """One delivery by hand, for what no provider sends."""
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        signed = {"Stripe-Signature": signature(body, int(time.time()), secret)}
        return httpx.post(
            self.url,
            content=body,
            headers={"Content-Type": "application/json"} | signed | headers,
            trust_env=False,
        )

    @property
    def events(self) -> list[ProviderEvent]:
        return list(ProviderEvent.objects.filter(account=self.stripe_account).order_by("id"))

    def standings(self) -> set[str]:
        return {event.standing for event in self.events}

    def refusals(self) -> dict[str, int]:
        found = HookRefusal.objects.filter(account=self.stripe_account)
        return dict(found.values_list("cause", "count"))

    def wait(self, done: Callable[[], Any], seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, (self.events, self.refusals())
            time.sleep(0.05)


@pytest.fixture
def world(simulator: SimulatedProvider, door: FrontDoor) -> Iterator[Hooked]:
    publish(
        charge=CHARGE,
        idempotent=IDEMPOTENT,
        refund=CHARGE | {"provider_object": "refund", "amount_pointer": ""},
    )
    yield Hooked(simulator).hook(door)
    simulator.clear_faults()
    simulator.settings(webhooks=[])


def event_of(**changes: Any) -> dict[str, Any]:
    """A whole event, as Stripe shapes them."""
    known: dict[str, Any] = {
        "id": f"evt_{uuid4().hex}",
        "object": "event",
        "api_version": "2026-10-28.endive",
        "created": int(time.time()),
        "livemode": False,
        "type": "payment_intent.succeeded",
        "request": {"id": "req_1", "idempotency_key": None},
        "data": {
            "object": {
                "id": f"pi_{uuid4().hex}",
                "object": "payment_intent",
                "status": "succeeded",
                "metadata": {"idem_key": uuid4().hex},
            }
        },
    }
    return known | changes


class TestFromTheDoorToTheVerdict:
    def test_an_event_has_its_object_read_by_id_and_settles_the_operation(self, world):
        call = world.doubtful(effect=True)
        world.wait(lambda: len(world.events) == 3)
        assert world.standings() == {"received"}
        look_now()
        assert call.operation.state == "COMMITTED"
        told = [finding.lookup for finding in call.findings]
        assert told.count("webhook") == 2
        assert told[-1] == "get"
        inbox.run_once()
        assert world.standings() == {"done"}
        created, charged, _ = world.events
        assert created.operation_id == charged.operation_id == call.id
        assert json.loads(bytes(created.body))["id"] == created.event_id

    def test_what_a_webhook_says_is_never_believed(self, world):
        """P10: a forged status changes nothing; the object is read, and is not there."""
        call = world.doubtful()
        body = event_of()
        body["data"]["object"]["metadata"]["idem_key"] = call.key
        assert world.deliver(body).status_code == 200
        look_now(call)
        assert call.operation.state == "UNKNOWN"
        assert [f.outcome for f in call.findings] == ["hit", "empty", "empty"]

    def test_an_old_event_after_a_newer_one_pushes_nothing_back(self, world):
        """P10: `succeeded` first, then `created` and `processing`."""
        world.simulator.fault({"webhooks": "reversed"}, method="POST")
        call = world.doubtful(effect=True)
        world.wait(lambda: len(world.events) == 3)
        types = [event.type for event in world.events]
        assert types[0] == "payment_intent.succeeded"
        for _ in range(2):
            look_now()
        assert call.operation.state == "COMMITTED"
        assert call.operation.effect_status == "succeeded"
        assert call.incidents == []

    def test_a_late_webhook_turns_proved_absence_into_a_late_effect(self, world):
        call = world.doubtful()
        travel(call, PAST_SETTLING)
        look_now(call)
        with connection.cursor() as cur:
            cur.execute(
                "UPDATE reconcilers_finding SET started_at = started_at - interval '6 seconds',"
                " ended_at = ended_at - interval '6 seconds' WHERE operation_id = %s",
                (call.id,),
            )
        look_now(call)
        assert call.operation.state == "PENDING"
        assert call.operation.release_reason == "absent"
        call.send()
        world.wait(lambda: len(world.events) == 3)
        look_now()
        assert call.operation.state == "COMMITTED"
        assert call.incidents == ["late_effect"]

    def test_a_refund_that_fails_later_is_noted_and_somebody_is_told(self, world):
        """P18: COMMITTED stays; the later fact has an axis of its own."""
        intent = world.claim()
        paid = intent.send().id
        world.simulator.fault({"fails_later_seconds": 1.0}, path="/v1/refunds", method="POST")
        call = world.claim("refund")
        made = world.stripe.v1.refunds.create(
            {"payment_intent": paid, "metadata": {"idem_key": call.key}},
            {"idempotency_key": call.key},
        )
        call.report("committed", provider_ref=made.id, effect_status="succeeded")
        world.wait(lambda: any(event.type == "refund.failed" for event in world.events))
        look_now()
        assert call.operation.state == "COMMITTED"
        assert call.operation.effect_status == "failed"
        assert call.incidents == ["effect_mismatch"]

    def test_a_bank_debit_stays_open_until_its_event_comes(self, world):
        """P16: `processing` for long is neither failure nor success."""
        world.simulator.fault({"processing": True, "processing_seconds": 2.0}, method="POST")
        call = world.doubtful(effect=True)
        world.wait(lambda: world.events)
        look_now()
        assert call.operation.state == "UNKNOWN"
        assert call.operation.verdict["kind"] == "in_flight"
        world.wait(lambda: any(e.type == "payment_intent.succeeded" for e in world.events))
        look_now()
        assert call.operation.state == "COMMITTED"


class TestDuplicates:
    def test_the_same_event_three_times_at_once_settles_once(self, world):
        """W01."""
        call = world.doubtful()
        body = event_of()
        body["data"]["object"] |= {"id": call.send().id, "metadata": {"idem_key": call.key}}
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda _: world.deliver(body), range(3)))
        assert {answer.status_code for answer in answers} == {200}
        (event,) = [event for event in world.events if event.event_id == body["id"]]
        assert event.times == 3
        look_now()
        settled = Event.objects.filter(operation=call.id, type="operation.reconciled")
        assert settled.count() == 1

    def test_two_events_about_one_change_are_one_piece_of_news(self, world):
        world.simulator.fault({"webhooks": "twice"}, method="POST")
        call = world.doubtful(effect=True)
        world.wait(lambda: sum(event.times for event in world.events) == 9)
        assert len(world.events) == 6
        assert [event.times for event in world.events] == [2, 2, 2, 1, 1, 1]
        assert [e.standing for e in world.events] == ["received"] * 3 + ["repeated"] * 3
        look_now()
        assert call.operation.state == "COMMITTED"

    def test_a_second_event_of_one_type_that_shows_something_else_is_news(self, world):
        first, second = event_of(), event_of()
        second["data"]["object"] |= first["data"]["object"] | {"status": "canceled"}
        for body in (first, second):
            assert world.deliver(body).json()["standing"] == "received"


class TestWhoseEventItIs:
    @pytest.mark.parametrize("how", ["wrong_mode", "wrong_account"])
    def test_another_modes_or_accounts_event_is_kept_and_left_alone(self, world, how):
        """P13."""
        look_now(world.doubtful(effect=True))  # The account is known from now on.
        world.simulator.fault({"webhooks": how}, method="POST")
        call = world.doubtful(effect=True)
        world.wait(lambda: len([e for e in world.events if e.standing == how]) == 3)
        inbox.run_once()
        kept = [event for event in world.events if event.standing == how]
        assert len(kept) == 3
        assert all(event.operation_id is None and event.reason for event in kept)
        assert call.findings == []

    def test_events_without_a_key_of_ours_are_kept_as_not_ours(self, world):
        """P19b: somebody refunds in the dashboard."""
        body = event_of()
        body["data"]["object"]["metadata"] = {}
        assert world.deliver(body).json()["standing"] == "not_ours"
        foreign = event_of(request={"id": "req_1", "idempotency_key": "order-42"})
        foreign["data"]["object"]["metadata"] = {}
        assert world.deliver(foreign).json()["standing"] == "received"
        inbox.run_once()
        assert world.standings() == {"not_ours"}
        assert not InboxItem.objects.exists()

    def test_an_event_before_its_operation_waits_and_is_matched_later(self, world):
        """P11b: the effect is there, and its claim comes only now."""
        run = {"run_id": f"run_{uuid4().hex[:10]}", "tool_call_id": "call_9"}
        key = derive_key(run["run_id"], 1, "call_9")
        made = world.stripe.v1.payment_intents.create(
            {
                "amount": 25_000,
                "currency": "usd",
                "confirm": True,
                "payment_method": "pm_card_visa",
                "metadata": {"idem_key": key},
            },
            {"idempotency_key": key},
        )
        world.wait(lambda: len(world.events) == 3)
        look_now()
        assert world.standings() == {"waiting"}
        assert InboxItem.objects.filter(idem_key=key, matched_at=None).exists()
        call = world.claim(**run)
        assert call.key == key
        assert call.answer["decision"] != "execute"
        assert call.operation.state == "UNKNOWN"
        look_now()
        assert call.operation.state == "COMMITTED"
        assert call.operation.provider_ref == made.id


class TestTheDoor:
    @pytest.mark.parametrize(
        ("how", "cause"), [("altered", "no_match"), ("forged", "no_match"), ("stale", "stale")]
    )
    def test_a_signature_that_does_not_hold_is_400_and_counted(self, world, how, cause):
        """P12."""
        world.simulator.fault({"webhooks": how}, method="POST", times=1)
        world.doubtful(effect=True)
        world.wait(lambda: world.refusals().get(cause, 0) >= 1)
        assert world.events == []

    def test_a_refusal_says_why_and_keeps_no_body(self, world):
        answer = world.deliver(event_of(), secret="whsec_another")
        assert answer.status_code == 400
        assert answer.json()["code"] == "INVALID_SIGNATURE"
        assert answer.json()["cause"] == "no_match"
        assert world.deliver(event_of(), **{"Stripe-Signature": ""}).json()["cause"] == (
            "no_signature"
        )
        assert world.events == []
        assert world.refusals() == {"no_match": 1, "no_signature": 1}

    def test_the_secret_of_another_account_is_named(self, world, door):
        other = Hooked(world.simulator, namespace=world.namespace)
        other.account("the other one", webhook_secret="whsec_other")
        answer = world.deliver(event_of(), secret="whsec_other")
        assert answer.json()["cause"] == "other_account"
        refusal = HookRefusal.objects.get(account=world.stripe_account)
        assert refusal.detail == "test account the other one"

    def test_while_the_secret_is_rolled_both_are_taken(self, simulator, door):
        publish(charge=CHARGE)
        world = Hooked(simulator).hook(door, webhook_secret_before="whsec_before")
        for secret in (SECRET, "whsec_before"):
            assert world.deliver(event_of(), secret=secret).status_code == 200
        assert world.deliver(event_of(), secret="whsec_older").status_code == 400

    def test_the_raw_body_counts_however_it_is_spelt(self, world):
        """P12: escapes and odd spacing are the sender's own business."""
        body = b'{ "id" :"evt_odd",\n\t"type":"payment_intent.succeeded","livemode":false,'
        body += b'"data":{"object":{"object":"payment_intent","id":"pi_odd",'
        body += b'"description":"caf\\u00e9 \xc3\xa9","metadata":{"idem_key":"odd"}}}}'
        assert world.deliver(body).status_code == 200
        assert bytes(world.events[0].body) == body

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"[]", "it has no id"),
            (b"nonsense", "it is no JSON"),
            (b'{"id": "evt_1", "type": "x", "livemode": false}', "it has no data.object"),
            (
                b'{"id": "evt_1", "data": {"object": {"object": "charge"}}}',
                "it has no type and no mode",
            ),
            (b'{"id": "evt_1", "type": "a\\u0000"}', "it holds characters that no database keeps"),
        ],
    )
    def test_signed_and_unreadable_is_kept_as_such(self, world, body, reason):
        """P14: an event of another shape is never counted as handled."""
        assert world.deliver(body).json()["standing"] == "unreadable"
        assert [event.reason for event in world.events] == [reason]

    def test_an_address_of_nobody_is_404(self, world, door):
        for path in (f"stripe/{uuid4()}", "stripe/acct_1", f"paypal/{world.stripe_account.id}"):
            answer = httpx.post(f"{door.url}/hooks/{path}", json={}, trust_env=False)
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")

    def test_a_body_beyond_the_bound_is_413(self, world):
        answer = world.deliver(b"x" * (512 * 1024 + 1))
        assert answer.status_code == 413
        assert world.refusals() == {}

    def test_an_account_without_a_secret_takes_nothing(self, simulator, door):
        world = Hooked(simulator)
        world.stripe_account = world.account()
        world.url = f"{door.url}/hooks/stripe/{world.stripe_account.id}"
        assert world.deliver(event_of()).json()["cause"] == "no_secret"


class TestNothingIsLost:
    def test_what_was_stored_and_never_worked_on_is_worked_on_by_the_next_sweep(self, world):
        """W03: the row is the work; whoever stored it may be dead."""
        call = world.doubtful(effect=True)
        world.wait(lambda: len(world.events) == 3)
        assert not Finding.objects.exists()
        look_now()
        assert call.operation.state == "COMMITTED"

    def test_a_look_that_was_made_before_the_event_does_not_count_for_it(self, world):
        call = world.doubtful(effect=True)
        world.wait(lambda: len(world.events) == 3)
        inbox.run_once()
        assert world.standings() == {"asked"}
        DueLook.objects.filter(pk=call.id).delete()  # The look that was asked for is lost.
        assert inbox.run_once()["hooks_done"] == 0
        ProviderEvent.objects.update(asked_at="2026-01-01T00:00:00Z")
        inbox.run_once()
        assert call.due is not None
        look_now()
        inbox.run_once()
        assert world.standings() == {"done"}

    def test_one_event_that_cannot_be_worked_on_stops_nobody(self, world):
        call = world.doubtful(effect=True)
        world.wait(lambda: len(world.events) == 3)
        poison = world.events[0]
        ProviderEvent.objects.filter(pk=poison.pk).update(sighting={"id": "pi_1"})
        look_now()
        poison.refresh_from_db()
        assert poison.standing == "unreadable"
        assert poison.reason == "it could not be worked on (KeyError); the log says why"
        assert call.operation.state == "COMMITTED"

    def test_while_the_provider_is_down_its_own_pauses_are_kept(self, world):
        call = world.doubtful(effect=True)
        world.wait(lambda: len(world.events) == 3)
        world.simulator.fault({"status": 429, "retry_after": 600}, method="GET")
        look_now()
        assert call.operation.state == "UNKNOWN"
        due_at = call.due.due_at
        ProviderEvent.objects.update(asked_at="2026-01-01T00:00:00Z")
        inbox.run_once()
        assert call.due.due_at == due_at
        assert world.standings() == {"asked"}
