"""Refunds, customers, transfers and payouts, with as much of their life as matters here."""

from typing import Any

from crashlab.provider import params as take
from crashlab.provider.answers import Outcome, error, invalid, missing
from crashlab.provider.shelf import Shelf, new_id

_REFUND = take.names("payment_intent charge amount reason metadata expand")
_CUSTOMER = take.names("name email description metadata payment_method expand")
_TRANSFER = take.names("amount currency destination description metadata transfer_group")
_PAYOUT = take.names("amount currency description metadata method statement_descriptor")


def check_refund(params: dict[str, Any]) -> None:
    take.only(params, _REFUND)
    take.metadata(params)
    if not params.get("payment_intent") and not params.get("charge"):
        raise invalid("One of payment_intent or charge is required.", code="parameter_missing")


def refund(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    intent = _paid_intent(shelf, params)
    charge = shelf.get("charge", intent["latest_charge"])
    assert charge is not None
    left = charge["amount"] - charge["amount_refunded"]
    amount = take.amount(params, "") if params.get("amount") else left
    if amount > left or not left:
        message = f"Refund amount ({amount}) is greater than unrefunded amount on charge ({left})"
        code = "charge_already_refunded" if not left else None
        return Outcome(400, error("invalid_request_error", message, code=code, param="amount"))
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount"]
    shelf.change(charge)
    body = _new(shelf, "re", "refund", params) | {
        "amount": amount,
        "charge": charge["id"],
        "currency": charge["currency"],
        "payment_intent": intent["id"],
        "status": "succeeded",
    }
    fails_after = shelf.call.fault.fails_later_seconds
    if shelf.call.fault.processing:
        body["status"] = "pending"
    if fails_after is not None:
        data = {"call": shelf.call.document(), "id": body["id"]}
        shelf.later(fails_after, "fail_refund", data)
    shelf.put(body)
    shelf.effect("refund", body, {"payment_intent": intent["id"]})
    shelf.event("refund.created", body)
    shelf.event("charge.refunded", charge)
    return Outcome(200, body)


def fail_refund(shelf: Shelf, identifier: str) -> None:
    """A refund that had succeeded fails, and its money is back on the charge."""
    body = shelf.get("refund", identifier)
    if body is None or body["status"] == "failed":
        return
    body |= {"status": "failed", "failure_reason": "lost_or_stolen_card"}
    shelf.change(body)
    charge = shelf.get("charge", body["charge"])
    if charge is not None:
        charge["amount_refunded"] -= body["amount"]
        charge["refunded"] = False
        shelf.change(charge)
    shelf.event("refund.failed", body)


def check_customer(params: dict[str, Any]) -> None:
    take.only(params, _CUSTOMER)
    take.metadata(params)


def customer(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    body = _new(shelf, "cus", "customer", params)
    for name in ("name", "email", "description"):
        body[name] = params.get(name)
    return _stored(shelf, body)


def check_transfer(params: dict[str, Any]) -> None:
    take.only(params, _TRANSFER)
    take.amount(params, take.currency(params))
    take.required(params, "destination")
    take.metadata(params)


def transfer(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    body = _new(shelf, "tr", "transfer", params) | _money(params)
    body |= {"amount_reversed": 0, "reversed": False}
    body |= {name: params.get(name) for name in ("destination", "transfer_group")}
    return _stored(shelf, body)


def check_payout(params: dict[str, Any]) -> None:
    take.only(params, _PAYOUT)
    take.amount(params, take.currency(params))
    take.metadata(params)


def payout(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    body = _new(shelf, "po", "payout", params) | _money(params)
    body |= {"arrival_date": int(shelf.now) + 86400, "status": "pending"}
    if not shelf.call.fault.processing:
        body["status"] = "paid"
    return _stored(shelf, body)


def _stored(shelf: Shelf, body: dict[str, Any]) -> Outcome:
    shelf.put(body)
    shelf.effect(body["object"], body, {})
    shelf.event(f"{body['object']}.created", body)
    return Outcome(200, body)


def _new(shelf: Shelf, prefix: str, kind: str, params: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": new_id(prefix),
        "object": kind,
        "created": int(shelf.now),
        "livemode": shelf.call.account.livemode,
        "metadata": take.metadata(params),
    }


def _money(params: dict[str, Any]) -> dict[str, Any]:
    unit = take.currency(params)
    return {"amount": take.amount(params, unit), "currency": unit}


def _paid_intent(shelf: Shelf, params: dict[str, Any]) -> dict[str, Any]:
    identifier = params.get("payment_intent")
    if not identifier:
        charge = shelf.get("charge", params["charge"])
        if charge is None:
            raise missing("charge", params["charge"], param="charge")
        identifier = charge["payment_intent"]
    intent = shelf.get("payment_intent", identifier)
    if intent is None:
        raise missing("payment_intent", identifier, param="payment_intent")
    if intent["status"] != "succeeded":
        raise invalid(
            f"This PaymentIntent ({identifier}) does not have a successful charge to refund."
        )
    return intent
