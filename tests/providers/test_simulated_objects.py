"""The simulated provider's other objects, restricted keys, test clocks and webhooks."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import stripe

from tests.support.charging import charge, client
from tests.support.simulated_provider import SimulatedProvider


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def provider(running: SimulatedProvider) -> Iterator[SimulatedProvider]:
    yield running
    running.clear_faults()
    running.settings(key_permissions={}, webhooks=[])


class Listener:
    """An endpoint that keeps every delivery: (body, signature header)."""

    def __init__(self) -> None:
        kept: list[tuple[bytes, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kept.append((body, self.headers["Stripe-Signature"]))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Says nothing."""

        self.kept = kept
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def wait(self, count: int) -> list[tuple[bytes, str]]:
        deadline = time.monotonic() + 10
        while len(self.kept) < count:
            assert time.monotonic() < deadline, f"{len(self.kept)} deliveries, not {count}"
            time.sleep(0.02)
        return self.kept

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listener(provider: SimulatedProvider) -> Iterator[Listener]:
    listener = Listener()
    provider.settings(webhooks=[{"url": listener.url, "secret": "whsec_sim"}])
    yield listener
    listener.close()


def test_each_object_is_made_once_under_its_key_and_is_listed(provider: SimulatedProvider) -> None:
    api = client(provider).v1
    money = {"amount": 900, "currency": "usd"}
    owner = api.customers.create({"name": "Ada"}).id
    makers: dict[str, tuple[Any, dict[str, Any]]] = {
        "charge": (api.charges, money | {"transfer_group": "group"}),
        "transfer": (api.transfers, money | {"destination": "acct_1"}),
        "payout": (api.payouts, money),
        "subscription": (api.subscriptions, {"customer": owner}),
        "invoice": (api.invoices, {"customer": owner}),
        "customer": (api.customers, {"name": "Bo"}),
    }
    for kind, (service, params) in makers.items():
        marked = params | {"metadata": {"idem_key": f"one-{kind}"}}
        made = service.create(marked, {"idempotency_key": f"one-{kind}"})
        again = service.create(marked, {"idempotency_key": f"one-{kind}"})
        assert (made.object, again.id) == (kind, made.id)
        assert service.retrieve(made.id).metadata["idem_key"] == f"one-{kind}"
        assert made.id in {each.id for each in service.list({"limit": 100}).data}
        assert provider.ledger(intent=f"one-{kind}")["count"] == 1


def test_a_deleted_customer_is_a_stub_that_search_still_shows_whole(
    provider: SimulatedProvider,
) -> None:
    api = client(provider).v1
    made = api.customers.create({"metadata": {"idem_key": "gone"}})
    api.customers.delete(made.id)
    assert api.customers.retrieve(made.id).to_dict() == {
        "id": made.id,
        "object": "customer",
        "deleted": True,
    }
    assert made.id not in {each.id for each in api.customers.list({"limit": 100}).data}
    found = api.customers.search({"query": 'metadata["idem_key"]:"gone"'}).data
    assert [each.id for each in found] == [made.id]


def test_canceled_subscriptions_are_listed_only_with_all(provider: SimulatedProvider) -> None:
    api = client(provider).v1
    owner = api.customers.create({}).id
    made = api.subscriptions.create({"customer": owner})
    api.subscriptions.cancel(made.id)
    assert not api.subscriptions.list({"customer": owner}).data
    (seen,) = api.subscriptions.list({"customer": owner, "status": "all"}).data
    assert seen.status == "canceled"


def test_what_lives_under_a_test_clock_is_left_out_of_the_list(provider: SimulatedProvider) -> None:
    api = client(provider, "sk_test_sim_clocks").v1
    clock = api.test_helpers.test_clocks.create({"frozen_time": 1}).id
    owner = api.customers.create({"test_clock": clock}).id
    made = api.subscriptions.create({"customer": owner})
    intent = api.payment_intents.create({"amount": 900, "currency": "usd", "customer": owner})
    assert not api.customers.list().data
    assert not api.subscriptions.list().data
    assert not api.payment_intents.list().data
    assert [each.id for each in api.customers.list({"test_clock": clock}).data] == [owner]
    assert [each.id for each in api.subscriptions.list({"customer": owner}).data] == [made.id]
    assert [each.id for each in api.payment_intents.list({"customer": owner}).data] == [intent.id]
    assert [each.id for each in api.test_helpers.test_clocks.list().data] == [clock]


def test_a_restricted_key_is_told_which_permission_it_lacks(provider: SimulatedProvider) -> None:
    provider.settings(key_permissions={"rk_test_sim": ["rak_payment_intent_read"]})
    restricted = client(provider, "rk_test_sim").v1
    restricted.payment_intents.list()
    with pytest.raises(stripe.PermissionError, match="'rak_transfer_read' permission"):
        restricted.transfers.list()
    with pytest.raises(stripe.PermissionError, match="'rak_payment_intent_write' permission"):
        restricted.payment_intents.create({"amount": 900, "currency": "usd"})


@pytest.mark.parametrize(("kind", "first"), [("refund", "succeeded"), ("payout", "paid")])
def test_what_has_succeeded_fails_later(provider: SimulatedProvider, kind: str, first: str) -> None:
    api = client(provider).v1
    provider.fault({"fails_later_seconds": 0.2}, method="POST", path=f"/v1/{kind}s")
    if kind == "refund":
        made: Any = api.refunds.create({"payment_intent": charge(provider, "to refund").id})
    else:
        made = api.payouts.create({"amount": 900, "currency": "usd"})
    assert made.status == first
    deadline = time.monotonic() + 5
    while getattr(api, f"{kind}s").retrieve(made.id).status != "failed":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def verified(delivery: tuple[bytes, str], secret: str = "whsec_sim") -> bool:
    try:
        stripe.WebhookSignature.verify_header(*delivery, secret, 300)
    except stripe.SignatureVerificationError:
        return False
    return True


@pytest.mark.parametrize(
    ("how", "holds"), [(None, True), ("altered", False), ("forged", False), ("stale", False)]
)
def test_signatures_hold_but_for_what_is_disturbed(
    provider: SimulatedProvider, listener: Listener, how: str | None, holds: bool
) -> None:
    provider.fault({"webhooks": how}, method="POST")
    made = charge(provider, f"signed {how}")
    events = listener.wait(3)
    assert [verified(delivery) for delivery in events[:3]] == [holds] * 3
    types = [json.loads(body)["type"] for body, _ in events[:3]]
    assert types == ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"]
    assert json.loads(events[0][0])["data"]["object"]["id"] == made.id


def test_while_a_secret_is_rolled_both_sign(
    provider: SimulatedProvider, listener: Listener
) -> None:
    target = {"url": listener.url, "secret": "whsec_new", "old_secret": "whsec_old"}
    provider.settings(webhooks=[target])
    charge(provider, "rolled")
    first = listener.wait(3)[0]
    assert verified(first, "whsec_new")
    assert verified(first, "whsec_old")


def test_a_target_may_take_one_accounts_events_alone(
    provider: SimulatedProvider, listener: Listener
) -> None:
    target = {"url": listener.url, "secret": "whsec_sim", "account": "acct_sim_a"}
    provider.settings(webhooks=[target | {"livemode": False}])
    charge(provider, "elsewhere")
    charge(provider, "in live", api_key="sk_live_sim_a")
    charge(provider, "here", api_key="sk_test_sim_a")
    listener.wait(3)
    time.sleep(0.2)
    keys = {json.loads(body)["request"]["idempotency_key"] for body, _ in listener.kept}
    assert keys == {"here"}
