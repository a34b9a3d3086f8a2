"""Customers, subscriptions, invoices and test clocks, with as much of their life as matters."""

from typing import Any

from crashlab.provider import params as take
from crashlab.provider.answers import Outcome, error, invalid, missing
from crashlab.provider.resources import new_body, stored
from crashlab.provider.shelf import Shelf

_CUSTOMER = take.names("name email description metadata payment_method test_clock expand")
_SUBSCRIPTION = take.names(
    "customer items metadata description payment_behavior collection_method days_until_due"
    " default_payment_method trial_period_days expand"
)
_INVOICE = take.names(
    "customer metadata description currency auto_advance collection_method days_until_due"
    " subscription expand"
)
_CLOCK = take.names("frozen_time name expand")


def check_customer(params: dict[str, Any]) -> None:
    take.only(params, _CUSTOMER)
    take.metadata(params)


def customer(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    clock = params.get("test_clock")
    if clock and shelf.get("test_helpers.test_clock", clock) is None:
        raise missing("test_clock", clock, param="test_clock", status=400)
    body = new_body(shelf, "cus", "customer", params) | {"test_clock": clock}
    for name in ("name", "email", "description"):
        body[name] = params.get(name)
    return stored(shelf, body)


def delete_customer(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    """The customer is a stub from now on; search goes on showing what it was."""
    return _deleted(shelf, "customer", identifier)


def check_subscription(params: dict[str, Any]) -> None:
    take.only(params, _SUBSCRIPTION)
    take.required(params, "customer")
    take.metadata(params)


def subscription(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    body = new_body(shelf, "sub", "subscription", params) | _of_customer(shelf, params)
    body |= {"items": {"object": "list", "data": []}, "latest_invoice": None}
    waits = shelf.call.fault.processing
    body["status"] = "incomplete" if waits else "active"
    if params.get("trial_period_days"):
        body["status"] = "trialing"
    outcome = stored(shelf, body, event="customer.subscription.created")
    if waits:
        shelf.settle_later(body, "incomplete_expired")
    return outcome


def cancel_subscription(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    body = _existing(shelf, "subscription", identifier)
    body["status"] = "canceled"
    shelf.change(body)
    shelf.event("customer.subscription.deleted", body)
    return Outcome(200, body)


def check_invoice(params: dict[str, Any]) -> None:
    take.only(params, _INVOICE)
    take.required(params, "customer")
    take.metadata(params)


def invoice(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    body = new_body(shelf, "in", "invoice", params) | _of_customer(shelf, params)
    body |= {"currency": params.get("currency", "usd"), "total": 0, "amount_due": 0}
    body |= {"status": "draft", "subscription": params.get("subscription")}
    return stored(shelf, body)


def finalize_invoice(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    return _invoice_to(shelf, identifier, "draft", "open", "invoice.finalized")


def pay_invoice(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    return _invoice_to(shelf, identifier, "open", "paid", "invoice.paid")


def delete_invoice(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    if _existing(shelf, "invoice", identifier)["status"] != "draft":
        raise invalid("You can only delete draft invoices.")
    return _deleted(shelf, "invoice", identifier)


def check_clock(params: dict[str, Any]) -> None:
    take.only(params, _CLOCK)
    take.required(params, "frozen_time")


def clock(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    if shelf.call.account.livemode:
        raise invalid("Test clocks exist in test mode only.")
    body = new_body(shelf, "clock", "test_helpers.test_clock", {})
    body |= {"name": params.get("name"), "frozen_time": int(params["frozen_time"])}
    body["status"] = "ready"
    shelf.put(body)
    return Outcome(200, body)


def _invoice_to(shelf: Shelf, identifier: str, before: str, after: str, event: str) -> Outcome:
    body = _existing(shelf, "invoice", identifier)
    if body["status"] != before:
        message = f"This invoice is {body['status']}."
        return Outcome(400, error("invalid_request_error", message))
    body["status"] = after
    shelf.change(body)
    shelf.event(event, body)
    return Outcome(200, body)


def _of_customer(shelf: Shelf, params: dict[str, Any]) -> dict[str, Any]:
    owner = _existing(shelf, "customer", params["customer"], param="customer")
    return {"customer": owner["id"], "test_clock": owner["test_clock"]}


def _existing(shelf: Shelf, kind: str, identifier: str, *, param: str = "id") -> dict[str, Any]:
    body = shelf.get(kind, identifier)
    if body is None or body.get("deleted"):
        raise missing(kind, identifier, param=param)
    return body


def _deleted(shelf: Shelf, kind: str, identifier: str) -> Outcome:
    body = _existing(shelf, kind, identifier)
    stub = {"id": identifier, "object": kind, "deleted": True}
    shelf.bury(body, stub)
    shelf.event(f"{kind}.deleted", body)
    return Outcome(200, stub)
