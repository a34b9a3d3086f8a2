"""The stripe provider's other looks: events, parents, transfer groups, test clocks, permissions."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from reconcilers.evidence import Outcome
from reconcilers.providers.base import BadConfig, parse_config
from reconcilers.providers.stripe.objects import OBJECTS
from tests.providers.contract import access_of, ask, question
from tests.providers.test_stripe import STRIPE, StripeBench
from tests.support.gates import OpenGate
from tests.support.simulated_provider import SimulatedProvider

MONEY: dict[str, Any] = {"amount": 2500, "currency": "usd"}


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def bench(simulator: SimulatedProvider) -> Iterator[StripeBench]:
    yield StripeBench(simulator)
    simulator.clear_faults()
    simulator.settings(search_lag_seconds=0, search_flap=0, key_permissions={})


@pytest.fixture
def api(bench: StripeBench) -> Any:
    return bench.client().v1


def settled(marker: str, kind: str, **changes: Any):
    """A question whose empty answer may count."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    return question(marker, kind, settles_at=past, **changes)


def marked(marker: str, **params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and options of a create call that carries the key twice."""
    return params | {"metadata": {"idem_key": marker}}, {"idempotency_key": marker}


class TestEveryObject:
    @pytest.mark.parametrize("kind", OBJECTS)
    async def test_it_is_found_by_list_by_events_and_by_id(self, bench, api, kind):
        marker = uuid4().hex
        owner = api.customers.create({}).id
        intent = bench.make_effect(uuid4().hex)
        params = {
            "payment_intent": MONEY | {"confirm": True, "payment_method": "pm_card_visa"},
            "charge": MONEY,
            "refund": {"payment_intent": intent},
            "transfer": MONEY | {"destination": "acct_1"},
            "payout": MONEY,
            "subscription": {"customer": owner},
            "invoice": {"customer": owner},
            "customer": {},
        }[kind]
        made = getattr(api, OBJECTS[kind].path).create(*marked(marker, **params))
        for lookups in (("list",), ("events",), ("get",)):
            ids = (made.id,) if lookups == ("get",) else ()
            asked = await ask(
                STRIPE, bench.access(), question(marker, kind, lookups=lookups, object_ids=ids)
            )
            look = asked.look(marker)
            assert look.lookup == lookups[0]
            (seen,) = look.sightings
            assert (seen.id, seen.kind, seen.marker, seen.verified) == (made.id, kind, marker, True)
            assert look.outcome in {Outcome.HIT, Outcome.PENDING}

    @pytest.mark.parametrize("kind", ["refund", "transfer", "payout"])
    async def test_search_over_what_has_none_is_refused_in_words(self, bench, kind):
        marker = uuid4().hex
        asked = await ask(STRIPE, bench.access(), question(marker, kind, lookups=("search",)))
        look = asked.look(marker)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert look.reason == (
            f"Stripe has no search over {kind}s; the catalogue may allow get, list, events"
        )

    async def test_an_object_that_is_unknown_is_named_with_those_there_are(self, bench):
        marker = uuid4().hex
        look = (await ask(STRIPE, bench.access(), question(marker, "coupon"))).look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert look.reason.startswith("'coupon' is no object that can be looked for at Stripe")

    async def test_get_without_an_id_says_so(self, bench):
        marker = uuid4().hex
        asked = await ask(STRIPE, bench.access(), question(marker, "payout", lookups=("get",)))
        assert asked.look(marker).reason == (
            "no id of the object is known, and the catalogue allows payouts no other look-up"
        )


class TestEvents:
    only = {"lookups": ("events",)}

    async def test_the_key_of_the_request_is_enough(self, bench, api):
        """The object holds no metadata of ours; the event names the key of its request."""
        marker = uuid4().hex
        made = api.transfers.create(MONEY | {"destination": "acct_1"}, {"idempotency_key": marker})
        asked = await ask(STRIPE, bench.access(), question(marker, "transfer", **self.only))
        (seen,) = asked.look(marker).sightings
        assert (seen.id, seen.marker) == (made.id, marker)

    async def test_what_an_event_told_is_read_again_as_it_is_now(self, bench, api):
        marker = uuid4().hex
        made = api.payment_intents.create(*marked(marker, **MONEY))
        api.payment_intents.cancel(made.id)
        asked = await ask(STRIPE, bench.access(), question(marker, "payment_intent", **self.only))
        (seen,) = asked.look(marker).sightings
        assert seen.status == "canceled"

    async def test_a_hit_that_cannot_be_read_again_is_no_hit(self, bench):
        marker = uuid4().hex
        object_id = bench.make_effect(marker)
        bench.simulator.fault({"status": 500}, path=f"/v1/payment_intents/{object_id}")
        asked = await ask(STRIPE, bench.access(), question(marker, "payment_intent", **self.only))
        look = asked.look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert not look.sightings[0].verified

    async def test_empty_is_of_class_e_and_one_pass_serves_all(self, bench):
        markers = [uuid4().hex for _ in range(20)]
        gate = OpenGate()
        asked = await ask(
            STRIPE,
            bench.access(),
            *(settled(marker, "payment_intent", **self.only) for marker in markers),
            gate=gate,
        )
        assert gate.turns == ["account", "events"]
        for marker in markers:
            look = asked.look(marker)
            assert (look.outcome, look.lookup_class) == (Outcome.EMPTY, "E")
            assert not look.exhaustive

    async def test_a_deleted_customer_is_told_of_where_no_list_shows_it(self, bench, api):
        marker = uuid4().hex
        made = api.customers.create(*marked(marker))
        api.customers.delete(made.id)
        asked = await ask(
            STRIPE, bench.access(), settled(marker, "customer", lookups=("list", "events"))
        )
        listed, told = asked.by_marker[marker]
        assert (listed.outcome, listed.exhaustive) == (Outcome.EMPTY, False)
        (seen,) = told.sightings
        assert (seen.id, seen.marker, seen.status, seen.stage) == (
            made.id, marker, "deleted", "not_reached",
        )  # fmt: skip

    async def test_a_search_that_shows_a_deleted_customer_is_put_right(self, bench, api):
        marker = uuid4().hex
        made = api.customers.create(*marked(marker))
        api.customers.delete(made.id)
        asked = await ask(STRIPE, bench.access(), question(marker, "customer", lookups=("search",)))
        (seen,) = asked.look(marker).sightings
        assert (seen.id, seen.status, seen.verified) == (made.id, "deleted", True)


class TestNarrowLists:
    async def test_a_refund_is_found_by_the_payment_that_was_reported(self, bench, api):
        marker = uuid4().hex
        intent = bench.make_effect(uuid4().hex)
        made = api.refunds.create(*marked(marker, payment_intent=intent))
        gate = OpenGate()
        asked = await ask(
            STRIPE, bench.access(), question(marker, "refund", object_ids=(intent,)), gate=gate
        )
        (look,) = asked.by_marker[marker]
        assert look.endpoint == f"GET /v1/refunds?payment_intent={intent}"
        assert look.sightings[0].id == made.id
        assert gate.turns == ["account", "refunds"]

    async def test_nothing_under_one_parent_sends_the_question_on_to_the_window(self, bench, api):
        marker = uuid4().hex
        parent, other = bench.make_effect(uuid4().hex), bench.make_effect(uuid4().hex)
        made = api.refunds.create(*marked(marker, payment_intent=other))
        asked = await ask(STRIPE, bench.access(), question(marker, "refund", object_ids=(parent,)))
        narrow, wide = asked.by_marker[marker]
        assert (narrow.outcome, narrow.exhaustive) == (Outcome.EMPTY, False)
        assert wide.sightings[0].id == made.id

    async def test_a_transfer_group_finds_what_carries_no_metadata(self, bench, api):
        marker = uuid4().hex
        made = api.transfers.create(
            MONEY | {"destination": "acct_1", "transfer_group": marker}, {"idempotency_key": marker}
        )
        access = bench.access(transfer_group="idem_key")
        (look,) = (await ask(STRIPE, access, question(marker, "transfer"))).by_marker[marker]
        assert (look.sightings[0].id, look.sightings[0].marker) == (made.id, marker)
        assert (look.lookup, look.exhaustive) == ("list", True)
        unknown = uuid4().hex
        look = (await ask(STRIPE, access, question(unknown, "transfer"))).look(unknown)
        assert (look.outcome, look.rows, look.complete) == (Outcome.EMPTY, 0, True)

    async def test_a_transfer_group_means_nothing_where_the_account_does_not_say_so(
        self, bench, api
    ):
        marker = uuid4().hex
        api.transfers.create(MONEY | {"destination": "acct_1", "transfer_group": marker})
        look = (await ask(STRIPE, bench.access(), question(marker, "transfer"))).look(marker)
        assert look.outcome is Outcome.EMPTY

    def test_another_word_for_the_transfer_group_is_refused(self):
        with pytest.raises(BadConfig, match=r"^transfer_group"):
            parse_config(STRIPE, "test", {"secret_key": "sk_test_1", "transfer_group": "order"})


class TestClocks:
    @pytest.mark.parametrize("kind", ["subscription", "payment_intent"])
    async def test_what_lives_under_one_is_found_before_an_empty_list_counts(
        self, bench, api, kind
    ):
        marker = uuid4().hex
        clock = api.test_helpers.test_clocks.create({"frozen_time": 1}).id
        owner = api.customers.create({"test_clock": clock}).id
        params = {"customer": owner} | (MONEY if kind == "payment_intent" else {})
        made = getattr(api, f"{kind}s").create(*marked(marker, **params))
        nothing = uuid4().hex
        asked = await ask(STRIPE, bench.access(), settled(marker, kind), settled(nothing, kind))
        assert asked.look(marker).sightings[0].id == made.id
        look = asked.look(nothing)
        assert (look.outcome, look.complete, look.exhaustive) == (Outcome.EMPTY, True, True)

    async def test_a_key_that_may_not_read_them_makes_no_empty_answer(self, bench):
        key = bench.key.replace("sk_", "rk_")
        allowed = ["rak_subscription_read", "rak_accounts_kyc_basic_read"]
        bench.simulator.settings(key_permissions={key: allowed})
        marker = uuid4().hex
        access = bench.access(secret_key=key)
        asked = await ask(STRIPE, access, settled(marker, "subscription", lookups=("list",)))
        look = asked.look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "what lives under test clocks is not in this list" in look.reason
        assert "rak_billing_clock_read" in look.reason

    async def test_in_live_nobody_asks_for_them(self, simulator):
        bench = StripeBench(simulator)
        bench.key = bench.key.replace("sk_test", "sk_live")
        access = access_of(STRIPE, "live", bench.config())
        gate = OpenGate()
        marker = uuid4().hex
        look = (await ask(STRIPE, access, settled(marker, "payment_intent"), gate=gate)).look(
            marker
        )
        assert (look.outcome, look.control_passed) == (Outcome.EMPTY, True)
        assert gate.turns == ["account", "payment_intents"]


class TestPermissions:
    async def test_the_missing_permission_is_named_and_no_key_is(self, bench):
        key = bench.key.replace("sk_", "rk_")
        bench.simulator.settings(key_permissions={key: ["rak_accounts_kyc_basic_read"]})
        marker = uuid4().hex
        asked = await ask(
            STRIPE, bench.access(secret_key=key), question(marker, "payout", lookups=("list",))
        )
        look = asked.look(marker)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert look.reason == (
            "403, the key may not read payouts: give it the permission rak_payout_read in"
            " Stripe's dashboard"
        )

    async def test_events_stand_in_for_a_list_that_may_not_be_read(self, bench, api):
        key = bench.key.replace("sk_", "rk_")
        bench.simulator.settings(key_permissions={key: ["rak_event_read", "rak_payout_read"]})
        bench.simulator.fault({"status": 403}, path="/v1/payouts", method="GET")
        marker = uuid4().hex
        made = api.payouts.create(*marked(marker, **MONEY))
        asked = await ask(STRIPE, bench.access(secret_key=key), question(marker, "payout"))
        listed, told = asked.by_marker[marker]
        assert listed.outcome is Outcome.CANNOT_LOOK
        assert (told.lookup, told.sightings[0].id) == ("events", made.id)

    async def test_an_outage_is_not_asked_about_at_other_addresses(self, bench):
        bench.simulator.fault({"status": 503}, path="/v1/payment_intents", method="GET")
        gate = OpenGate()
        marker = uuid4().hex
        await ask(STRIPE, bench.access(), question(marker, "payment_intent"), gate=gate)
        assert gate.turns == ["account", "payment_intents"]


class TestAccounts:
    async def test_two_accounts_with_one_key_in_each_never_meet(self, simulator):
        """P13: the same marker in another account, and in the other mode, is nobody's here."""
        here, there = StripeBench(simulator), StripeBench(simulator)
        marker = uuid4().hex
        there.make_effect(marker)
        here_look = (await ask(STRIPE, here.access(), question(marker, "payment_intent"))).look(
            marker
        )
        assert here_look.outcome is Outcome.EMPTY
        there_look = (await ask(STRIPE, there.access(), question(marker, "payment_intent"))).look(
            marker
        )
        assert there_look.outcome is Outcome.HIT
        assert json.loads(there_look.answer)["ours"]
        assert here_look.account_seen != there_look.account_seen
