"""The stripe provider against the simulated one, and against fixtures of every status."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import stripe

from reconcilers import registry
from reconcilers.evidence import Outcome, Stage
from reconcilers.providers.base import BadConfig, KnownObject, parse_config
from reconcilers.providers.stripe import windows
from reconcilers.providers.stripe.objects import OBJECTS, kind_of, sighting_of
from reconcilers.providers.stripe.singles import escaped
from tests.providers.contract import Bench, ProviderContract, access_of, ask, question
from tests.support.gates import OpenGate
from tests.support.simulated_provider import SimulatedProvider

FIXTURES = Path(registry.__file__).parent / "providers" / "stripe" / "fixtures"
STRIPE = registry.provider_of("stripe")


_FAULTS: dict[str, dict[str, Any]] = {
    "refused": {"status": 401},
    "forbidden": {"status": 403},
    "throttled": {"status": 429, "retry_after": 1},
    "outage": {"status": 503},
    "hang": {"latency_ms": 30_000},
    "cut": {"drop": "before"},
}


class StripeBench(Bench):
    kind = "stripe"
    object_kind = "payment_intent"
    absent_id = "pi_never1"
    cannot_happen = {
        "garbage": "the simulated provider answers in JSON only",
        "flood": "the simulated provider's answers end",
    }

    def __init__(self, simulator: SimulatedProvider) -> None:
        self.simulator = simulator
        self.key = f"sk_test_sim{uuid4().hex[:8]}"
        http = stripe.RequestsClient(timeout=10)
        self._client = stripe.StripeClient(
            self.key, base_addresses={"api": simulator.url}, http_client=http
        )

    def config(self, **changes: Any) -> dict[str, Any]:
        known = {"secret_key": self.key, "base_url": self.simulator.url, "timeout_seconds": 2}
        return known | changes

    def wrong_config(self) -> dict[str, Any]:
        return self.config(secret_key="sk_test_wrong_abcdefghijkl")

    def make_effect(self, marker: str, **changes: Any) -> str:
        params: Any = {
            "amount": 2500,
            "currency": "usd",
            "confirm": True,
            "payment_method": "pm_card_visa",
            "metadata": {"idem_key": marker},
        }
        intent = self._client.v1.payment_intents.create(
            params | changes, {"idempotency_key": uuid4().hex}
        )
        return str(intent.id)

    def client(self) -> Any:
        return self._client

    def bend(self, fault: str) -> None:
        self.simulator.fault(_FAULTS[fault], method="GET", path="/v1/*")

    def other_accounts(self) -> list[dict[str, Any]]:
        return [self.config(account="acct_somebodyelse")]

    def mend(self) -> None:
        self.simulator.clear_faults()

    def access(self, **changes: Any) -> Any:
        return access_of(STRIPE, "test", self.config(**changes))

    def reads(self) -> list[str]:
        return [row["path"] for row in self.simulator.requests() if row["method"] == "GET"]


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def bench(simulator: SimulatedProvider) -> Iterator[StripeBench]:
    yield StripeBench(simulator)
    simulator.clear_faults()
    simulator.settings(search_lag_seconds=0, search_flap=0)


def ask_for(marker: str, **changes: Any):
    return question(marker, "payment_intent", **changes)


class TestContract(ProviderContract):
    kind = "stripe"


class TestStatuses:
    CASES = json.loads((FIXTURES / "statuses.json").read_text())

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
    def test_each_status_says_how_far_the_effect_has_come(self, case):
        seen = sighting_of(case["object"]["object"], case["object"], verified=True)
        assert seen.stage.value == case["stage"]
        assert seen.detail == case.get("detail", "")
        assert kind_of(seen.id) == seen.kind

    def test_every_status_of_the_table_has_a_fixture(self):
        covered = {(c["object"]["object"], c["object"].get("status")) for c in self.CASES}
        for kind, described in OBJECTS.items():
            for status in described.statuses:
                assert (kind, status) in covered

    def test_a_status_that_is_not_known_counts_as_open(self):
        body = {"id": "pi_1", "object": "payment_intent", "status": "brand_new"}
        assert sighting_of("payment_intent", body, verified=True).stage is Stage.IN_FLIGHT


class TestConfig:
    def test_a_live_key_in_the_test_environment_is_refused(self):
        with pytest.raises(BadConfig, match="a live key in the test environment"):
            parse_config(STRIPE, "test", {"secret_key": "sk_live_sim"})

    @pytest.mark.parametrize("key", ["pk_test_1", "whsec_1", "sk_1"])
    def test_what_is_no_secret_key_is_refused(self, key):
        with pytest.raises(BadConfig, match=r"^secret_key: expected"):
            parse_config(STRIPE, "test", {"secret_key": key})

    def test_a_base_url_that_is_no_origin_is_refused(self):
        with pytest.raises(BadConfig, match=r"^base_url"):
            parse_config(STRIPE, "test", {"secret_key": "sk_test_1", "base_url": "stripe.com"})

    def test_after_a_500_the_provider_may_act_for_a_day(self):
        quarter = timedelta(minutes=15)
        assert STRIPE.request_lifetime(quarter, [402, 429]) == quarter
        assert STRIPE.request_lifetime(quarter, [500]) == timedelta(hours=24)

    def test_objects_that_can_be_deleted_never_prove_absence(self):
        assert not any(way.may_prove_absence for way in STRIPE.ways("customer"))
        assert any(way.may_prove_absence for way in STRIPE.ways("payment_intent"))


class TestById:
    async def test_a_known_id_is_read_and_nothing_else(self, bench):
        marker = uuid4().hex
        object_id = bench.make_effect(marker)
        gate = OpenGate()
        asked = await ask(
            STRIPE, bench.access(), ask_for(marker, object_ids=(object_id,)), gate=gate
        )
        (look,) = asked.by_marker[marker]
        assert (look.lookup, look.lookup_class, look.exhaustive) == ("get", "A", False)
        assert look.sightings[0].id == object_id
        assert look.request_id.startswith("req_")
        assert gate.turns == ["account", "payment_intents"]

    async def test_where_effects_are_counted_the_list_is_read_as_well(self, bench):
        marker = uuid4().hex
        first, second = bench.make_effect(marker), bench.make_effect(marker)
        asked = await ask(
            STRIPE, bench.access(), ask_for(marker, object_ids=(first,), count_effects=True)
        )
        assert [look.lookup for look in asked.by_marker[marker]] == ["get", "list"]
        assert {seen.id for seen in asked.look(marker).sightings} == {first, second}

    async def test_an_id_that_is_not_there_sends_the_question_on_to_the_list(self, bench):
        marker = uuid4().hex
        object_id = bench.make_effect(marker)
        asked = await ask(STRIPE, bench.access(), ask_for(marker, object_ids=("pi_gone",)))
        assert [look.outcome.value for look in asked.by_marker[marker]] == ["empty", "hit"]
        assert asked.look(marker).sightings[0].id == object_id

    @pytest.mark.parametrize(
        "strange", ["../v1/account", "pi_1?x=1", "pm_card", "", "pi_" + "x" * 400]
    )
    async def test_an_id_that_is_none_is_never_put_into_a_path(self, bench, strange):
        marker = uuid4().hex
        asked = await ask(STRIPE, bench.access(), ask_for(marker, object_ids=(strange,)))
        assert [look.lookup for look in asked.by_marker[marker]] == ["list"]


class TestWindows:
    async def test_one_window_serves_every_question_of_the_account(self, bench):
        markers = [uuid4().hex for _ in range(30)]
        for marker in markers:
            bench.make_effect(marker)
        gate = OpenGate()
        await ask(STRIPE, bench.access(), *(ask_for(marker) for marker in markers), gate=gate)
        assert gate.turns == ["account", "payment_intents"]

    async def test_it_follows_the_cursor_to_the_end(self, bench):
        """C01: 250 objects on pages of ten; every one is found and the pages are counted."""
        markers = [uuid4().hex for _ in range(250)]
        for marker in markers:
            bench.make_effect(marker, confirm=False)
        bench.simulator.fault({"page_size": 10}, method="GET")
        asked = await ask(STRIPE, bench.access(), *(ask_for(marker) for marker in markers))
        assert all(asked.look(marker).sightings for marker in markers)
        oldest = asked.look(markers[0])
        assert (oldest.pages, oldest.rows, oldest.complete) == (25, 250, True)

    async def test_a_page_that_fails_leaves_no_empty_answer(self, bench):
        """C01: what was seen stands, what was not is incomplete and never missing."""
        found, lost = uuid4().hex, uuid4().hex
        bench.make_effect(lost)
        for _ in range(15):
            bench.make_effect(uuid4().hex, confirm=False)
        bench.make_effect(found)
        bench.simulator.fault({"page_size": 10}, method="GET")
        bench.simulator.fault({"status": 500}, method="GET", contains="starting_after")
        asked = await ask(
            STRIPE,
            bench.access(),
            ask_for(found, lookups=("list",)),
            ask_for(lost, lookups=("list",)),
        )
        assert asked.look(found).outcome is Outcome.HIT
        assert not asked.look(found).complete
        assert asked.look(lost).outcome is Outcome.CANNOT_LOOK
        assert asked.look(lost).reason.startswith("page 2 of the list: 500")

    async def test_a_young_question_does_not_wait_for_an_old_ones_pages(self, bench, monkeypatch):
        monkeypatch.setattr(windows, "CLOCK_SLACK", timedelta(0))
        young, old = uuid4().hex, uuid4().hex
        for _ in range(30):
            bench.make_effect(uuid4().hex, confirm=False)
        bench.simulator.fault({"page_size": 10}, method="GET")
        now = datetime.now(UTC)
        asked = await ask(
            STRIPE,
            bench.access(),
            ask_for(young, window_from=now + timedelta(seconds=1)),
            ask_for(old, window_from=now - timedelta(minutes=5)),
        )
        assert asked.look(young).pages == 1
        assert asked.look(young).complete
        assert asked.look(old).pages == 3

    async def test_the_window_reaches_further_back_than_the_first_send(self, bench):
        marker = uuid4().hex
        sent = datetime.now(UTC)
        look = (await ask(STRIPE, bench.access(), ask_for(marker, window_from=sent))).look(marker)
        assert look.covers_from == sent - timedelta(minutes=10)

    async def test_two_objects_with_one_marker_are_both_seen(self, bench):
        marker = uuid4().hex
        ids = {bench.make_effect(marker), bench.make_effect(marker)}
        look = (await ask(STRIPE, bench.access(), ask_for(marker))).look(marker)
        assert {seen.id for seen in look.sightings} == ids

    async def test_other_objects_are_listed_where_they_live(self, bench):
        marker = uuid4().hex
        bench.client().v1.customers.create({"metadata": {"idem_key": marker}})
        asked = await ask(STRIPE, bench.access(), question(marker, "customer"))
        look = asked.look(marker)
        assert (look.outcome, look.exhaustive) == (Outcome.HIT, False)
        assert look.endpoint == "GET /v1/customers"


class TestPositiveControl:
    def settled(self, marker, **changes):
        past = datetime.now(UTC) - timedelta(seconds=1)
        return ask_for(marker, settles_at=past, **changes)

    async def test_the_accounts_identity_is_enough_where_nothing_of_ours_is_known(self, bench):
        marker = uuid4().hex
        look = (await ask(STRIPE, bench.access(), self.settled(marker))).look(marker)
        assert (look.outcome, look.control_passed) == (Outcome.EMPTY, True)
        assert look.account_seen == f"acct_{bench.key.removeprefix('sk_test_')}"

    async def test_before_the_settle_point_it_is_not_asked_for(self, bench):
        marker = uuid4().hex
        look = (await ask(STRIPE, bench.access(), ask_for(marker))).look(marker)
        assert (look.outcome, look.control_passed) == (Outcome.EMPTY, False)

    async def test_a_known_object_has_to_be_visible(self, bench):
        object_id = bench.make_effect(uuid4().hex)
        created = datetime.fromtimestamp(
            bench.client().v1.payment_intents.retrieve(object_id).created, UTC
        )
        visible = KnownObject(kind="payment_intent", id=object_id, created_at=created)
        marker = uuid4().hex
        asked = await ask(
            STRIPE, bench.access(), self.settled(marker), known={"payment_intent": visible}
        )
        assert asked.look(marker).control_passed

        hidden = KnownObject(kind="payment_intent", id="pi_hidden", created_at=created)
        asked = await ask(
            STRIPE, bench.access(), self.settled(marker), known={"payment_intent": hidden}
        )
        look = asked.look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "pi_hidden" in look.reason

    async def test_another_account_behind_the_key_is_no_empty_answer(self, bench):
        marker = uuid4().hex
        access = bench.access(account="acct_ours")
        look = (await ask(STRIPE, access, self.settled(marker))).look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "and this account is acct_ours" in look.reason
        assert look.permanent

    async def test_a_key_that_may_not_read_the_account_needs_a_known_object(self, bench):
        bench.simulator.fault({"status": 403}, path="/v1/account")
        marker = uuid4().hex
        look = (await ask(STRIPE, bench.access(), self.settled(marker))).look(marker)
        assert (look.outcome, look.control_passed) == (Outcome.EMPTY, False)


class TestSearch:
    only = {"lookups": ("search",)}

    async def test_a_hit_is_read_again_by_id(self, bench):
        marker = uuid4().hex
        object_id = bench.make_effect(marker)
        gate = OpenGate()
        asked = await ask(STRIPE, bench.access(), ask_for(marker, **self.only), gate=gate)
        (look,) = asked.by_marker[marker]
        assert (look.lookup_class, look.sightings[0].id) == ("C", object_id)
        assert look.sightings[0].verified
        assert gate.turns == ["account", "search", "payment_intents"]

    async def test_an_index_that_lags_is_empty_and_proves_nothing(self, bench):
        """P07: made moments ago, not in the index yet."""
        bench.simulator.settings(search_lag_seconds=60)
        marker = uuid4().hex
        bench.make_effect(marker)
        look = (await ask(STRIPE, bench.access(), ask_for(marker, **self.only))).look(marker)
        assert (look.outcome, look.lookup_class) == (Outcome.EMPTY, "C")

    async def test_a_hit_in_another_case_is_none(self, bench):
        marker = uuid4().hex + "abc"
        bench.make_effect(marker.upper())
        look = (await ask(STRIPE, bench.access(), ask_for(marker, **self.only))).look(marker)
        assert look.outcome is Outcome.EMPTY

    async def test_a_hit_that_cannot_be_read_again_is_no_hit(self, bench):
        marker = uuid4().hex
        object_id = bench.make_effect(marker)
        bench.simulator.fault({"status": 500}, path=f"/v1/payment_intents/{object_id}")
        look = (await ask(STRIPE, bench.access(), ask_for(marker, **self.only))).look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert not look.sightings[0].verified

    async def test_it_stands_in_where_the_list_cannot_be_read(self, bench):
        marker = uuid4().hex
        object_id = bench.make_effect(marker)
        bench.simulator.fault({"status": 403}, path="/v1/payment_intents")
        asked = await ask(STRIPE, bench.access(), ask_for(marker))
        listed, searched = asked.by_marker[marker]
        assert listed.outcome is Outcome.CANNOT_LOOK
        assert "may not read payment_intents" in listed.reason
        assert searched.sightings[0].id == object_id

    def test_a_marker_cannot_break_out_of_the_query(self):
        assert escaped('a" OR metadata["x"]:"b\\') == 'a\\" OR metadata[\\"x\\"]:\\"b\\\\'


class TestFailures:
    @pytest.mark.parametrize(
        ("action", "words", "permanent"),
        [
            ({"status": 401}, "401, the secret key is not accepted", True),
            ({"status": 403}, "403, the key may not read payment_intents", True),
            ({"status": 429, "retry_after": 7}, "429, too many requests", False),
            ({"status": 429, "code": "lock_timeout"}, "429, an object is locked", False),
            ({"status": 503}, "503 from Stripe", False),
            ({"latency_ms": 4000}, "no answer within 2 s", False),
            ({"drop": "before"}, "the connection failed", False),
        ],
    )
    async def test_every_failure_says_what_it_was(self, bench, action, words, permanent):
        marker = uuid4().hex
        bench.make_effect(marker)
        bench.simulator.fault(action, path="/v1/payment_intents", method="GET")
        asked = await ask(STRIPE, bench.access(), ask_for(marker, lookups=("list",)))
        look = asked.look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert words in look.reason
        assert look.permanent is permanent
        if "retry_after" in action:
            assert look.retry_after_seconds == 7.0

    async def test_nobody_listens(self, bench):
        marker = uuid4().hex
        access = bench.access(base_url="http://127.0.0.1:9")
        look = (await ask(STRIPE, access, ask_for(marker))).look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "the connection failed" in look.reason

    async def test_the_reader_never_writes(self, bench):
        before = len(bench.simulator.requests())
        await ask(STRIPE, bench.access(), ask_for(uuid4().hex))
        methods = {row["method"] for row in bench.simulator.requests()[before:]}
        assert methods == {"GET"}
