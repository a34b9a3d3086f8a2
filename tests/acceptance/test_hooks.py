"""Webhooks into the whole product: what was answered 200 is worked on, whoever is killed."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stripe

from tests.support.api import Api
from tests.support.product import Product
from tests.support.simulated_provider import SimulatedProvider

SECRET = "whsec_acceptance"
CATALOGUE = """
tools:
  - name: stripe.charge
    class: unsafe
    provider: stripe
    reconciler: stripe
    object: payment_intent
    key: {accepts: true, retention_hours: 24}
    client_timeout_seconds: 2
    amount: {pointer: /amount, currency_pointer: /currency, unit: minor}
"""


class Place:
    """The product, one Stripe account of it, and the provider that delivers to it."""

    def __init__(self, product: Product, simulator: SimulatedProvider, folder: Path) -> None:
        self.product = product
        self.simulator = simulator
        (folder / "catalogue.yaml").write_text(CATALOGUE)
        product.manage("catalogue", "apply", str(folder / "catalogue.yaml"))
        self.api = Api(product, namespace="default")
        config = f"secret_key: sk_test_simhooks\nbase_url: {simulator.url}\n"
        config += f"webhook_secret: {SECRET}\n"
        words = ("create_provider_account", "stripe", "--environment", "test", "--config", "-")
        self.account = product.manage(*words, stdin=config).strip()
        url = f"http://127.0.0.1:{product.instance.port}/hooks/stripe/{self.account}"
        simulator.settings(webhooks=[{"url": url, "secret": SECRET}])
        self.stripe = stripe.StripeClient(
            "sk_test_simhooks",
            base_addresses={"api": simulator.url},
            http_client=stripe.RequestsClient(timeout=5),
        )

    def doubtful(self) -> str:
        """A call that took effect and whose answer was lost; its key."""
        claimed = self.api.claimed(tool="stripe.charge", args={"amount": 900, "currency": "usd"})
        key: str = claimed["idem_key"]
        self.api.outcome(claimed, "unknown", error={"type": "timeout", "message": "none"})
        params: Any = {
            "amount": 900,
            "currency": "usd",
            "confirm": True,
            "payment_method": "pm_card_visa",
            "metadata": {"idem_key": key},
        }
        self.stripe.v1.payment_intents.create(params, {"idempotency_key": key})
        return key

    def wait(self, query: str, *parameters: Any, seconds: float = 40) -> None:
        """Until the query's first value is true."""
        deadline = time.monotonic() + seconds
        while not (rows := self.api.sql(query, *parameters)) or not rows[0][0]:
            assert time.monotonic() < deadline, query
            time.sleep(0.1)


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def place(
    own_product: Product, simulator: SimulatedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Place:
    own_product.wait_until_ready()
    return Place(own_product, simulator, tmp_path_factory.mktemp("place"))


@pytest.mark.crash
@pytest.mark.slow
def test_what_was_stored_is_worked_on_although_everybody_was_killed(place: Place) -> None:
    # By id alone: nothing but the event tells which, and nobody looks until a worker is back.
    place.simulator.fault({"status": 503}, method="GET")
    key = place.doubtful()
    stored = "SELECT count(*) >= 3 FROM reconcilers_providerevent WHERE idem_key = %s"
    place.wait(stored, key)
    for name in place.product.pids():
        if name.startswith(("worker", "web", "beat")):
            place.product.kill(name)
    place.simulator.clear_faults()
    place.wait("SELECT state = 'COMMITTED' FROM operations_operation WHERE idem_key = %s", key)
    done = "SELECT bool_and(standing = 'done') FROM reconcilers_providerevent WHERE idem_key = %s"
    place.wait(done, key)
    place.wait(
        "SELECT count(*) > 0 FROM reconcilers_finding f JOIN operations_operation o"
        " ON o.id = f.operation_id WHERE o.idem_key = %s AND f.lookup = 'webhook'",
        key,
    )


def test_a_forged_delivery_is_counted_and_nothing_of_it_is_kept(place: Place) -> None:
    place.simulator.fault({"webhooks": "forged"}, method="POST", times=1)
    key = place.doubtful()
    place.wait("SELECT count(*) > 0 FROM reconcilers_hookrefusal WHERE cause = 'no_match'")
    kept = "SELECT count(*) FROM reconcilers_providerevent WHERE idem_key = %s"
    assert place.api.sql(kept, key) == [(0,)]
