"""Charges at the simulated provider, made by the official SDK."""

from typing import Any

import stripe

from tests.support.simulated_provider import SimulatedProvider

CHARGE: dict[str, Any] = {
    "amount": 2500,
    "currency": "usd",
    "confirm": True,
    "payment_method": "pm_card_visa",
}


def client(provider: SimulatedProvider, key: str = "sk_test_sim", *, timeout: float = 10) -> Any:
    http = stripe.RequestsClient(timeout=timeout)
    return stripe.StripeClient(key, base_addresses={"api": provider.url}, http_client=http)


def charge(
    provider: SimulatedProvider, key: str, *, api_key: str = "sk_test_sim", **more: Any
) -> Any:
    params = CHARGE | {"metadata": {"idem_key": key}} | more
    return client(provider, api_key).v1.payment_intents.create(params, {"idempotency_key": key})


def effects(provider: SimulatedProvider, key: str) -> int:
    return int(provider.ledger(intent=key)["count"])
