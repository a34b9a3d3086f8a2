"""Which function checks and which executes a write, by its method and address."""

import re
from collections.abc import Callable
from typing import Any

from crashlab.provider import billing, payment_intents, plain, resources
from crashlab.provider.answers import Outcome, Refused, error
from crashlab.provider.shelf import Shelf

Check = Callable[[dict[str, Any]], None]
Execute = Callable[[Shelf, dict[str, Any]], Outcome]
OnOne = Callable[[Shelf, str, dict[str, Any]], Outcome]

_COLLECTIONS: dict[str, tuple[Check, Execute]] = {
    "/v1/payment_intents": (payment_intents.check_create, payment_intents.create),
    "/v1/charges": (resources.check_charge, resources.charge),
    "/v1/refunds": (resources.check_refund, resources.refund),
    "/v1/transfers": (resources.check_transfer, resources.transfer),
    "/v1/payouts": (resources.check_payout, resources.payout),
    "/v1/customers": (billing.check_customer, billing.customer),
    "/v1/subscriptions": (billing.check_subscription, billing.subscription),
    "/v1/invoices": (billing.check_invoice, billing.invoice),
    "/v1/test_helpers/test_clocks": (billing.check_clock, billing.clock),
}
_ONE = re.compile(r"/v1/([a-z_]+)/([A-Za-z0-9_]+)(?:/([a-z_]+))?")


def _nothing(params: dict[str, Any]) -> None:
    """Takes whatever comes."""


#: (method, resource, verb) -> what checks and what executes it.
_ON_ONE: dict[tuple[str, str, str | None], tuple[Check, OnOne]] = {
    ("POST", "payment_intents", None): (payment_intents.check_update, payment_intents.update),
    ("POST", "payment_intents", "confirm"): (
        payment_intents.check_confirm,
        payment_intents.confirm,
    ),
    ("POST", "payment_intents", "capture"): (_nothing, payment_intents.capture),
    ("POST", "payment_intents", "cancel"): (_nothing, payment_intents.cancel),
    ("POST", "invoices", "finalize"): (_nothing, billing.finalize_invoice),
    ("POST", "invoices", "pay"): (_nothing, billing.pay_invoice),
    ("DELETE", "invoices", None): (_nothing, billing.delete_invoice),
    ("DELETE", "customers", None): (_nothing, billing.delete_customer),
    ("DELETE", "subscriptions", None): (_nothing, billing.cancel_subscription),
}


def endpoint(method: str, path: str) -> tuple[Check, Execute]:
    """What checks and what executes a write; raises Refused 404 where nothing does."""
    if method == "POST" and path in _COLLECTIONS:
        return _COLLECTIONS[path]
    if method == "POST" and path in plain.ENDPOINTS:
        return (
            lambda params: plain.check(path, params),
            lambda shelf, params: plain.perform(shelf, path, params),
        )
    match = _ONE.fullmatch(path)
    found = _ON_ONE.get((method, match[1], match[3])) if match else None
    if match is None or found is None:
        message = f"Unrecognized request URL ({method}: {path})."
        raise Refused(404, error("invalid_request_error", message))
    check, execute = found
    identifier = match[2]
    return check, lambda shelf, params: execute(shelf, identifier, params)
