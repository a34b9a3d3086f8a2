"""Charges, refunds, transfers and payouts, with as much of their life as matters here."""

from typing import Any

from crashlab.provider import params as take
from crashlab.provider.answers import Outcome, error, invalid, missing
from crashlab.provider.shelf import Shelf, new_id

_REFUND = take.names("payment_intent charge amount reason metadata expand")
_CHARGE = take.names("amount currency customer source description metadata transfer_group expand")
_TRANSFER = take.names(
    "amount currency destination description metadata transfer_group source_transaction expand"
)
_PAYOUT = take.names("amount currency description metadata method statement_descriptor expand")


def check_charge(params: dict[str, Any]) -> None:
    take.only(params, _CHARGE)
    take.amount(params, take.currency(params))
    take.metadata(params)


def charge(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    """The older way to take money, without an intent around it."""
    body = new_body(shelf, "ch", "charge", params) | _money(params)
    body |= {"amount_refunded": 0, "captured": True, "payment_intent": None, "refunded": False}
    body |= {name: params.get(name) for name in ("customer", "transfer_group")}
    pending = shelf.call.fault.processing
    body |= {"paid": not pending, "status": "pending" if pending else "succeeded"}
    outcome = stored(shelf, body, event=f"charge.{body['status']}")
    if pending:
        shelf.settle_later(body, shelf.call.fault.then)
    return outcome


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
    body = new_body(shelf, "re", "refund", params) | {
        "amount": amount,
        "charge": charge["id"],
        "currency": charge["currency"],
        "payment_intent": intent["id"],
        "status": "succeeded",
    }
    if shelf.call.fault.processing:
        body["status"] = "pending"
        shelf.settle_later(body, shelf.call.fault.then)
    shelf.fail_later(body)
    shelf.put(body)
    shelf.effect("refund", body, {"payment_intent": intent["id"]})
    shelf.event("refund.created", body)
    shelf.event("charge.refunded", charge)
    return Outcome(200, body)


def settle(shelf: Shelf, kind: str, identifier: str, status: str) -> None:
    """What was under way ends in `status`; what had ended well may still fail."""
    body = shelf.get(kind, identifier)
    if body is None or body["status"] in (status, "failed", "canceled"):
        return
    body["status"] = status
    if status == "failed":
        body["failure_reason"] = "lost_or_stolen_card"
        if kind == "refund":
            _give_back(shelf, body)
    shelf.change(body)
    # Stripe says `charge.refund.updated` of refunds of cards, and `refund.updated` of all.
    shelf.event(f"{kind}.{'failed' if status == 'failed' else 'updated'}", body)


def _give_back(shelf: Shelf, refund: dict[str, Any]) -> None:
    """The money of a refund that failed is on the charge again."""
    charge = shelf.get("charge", refund["charge"])
    if charge is not None:
        charge["amount_refunded"] -= refund["amount"]
        charge["refunded"] = False
        shelf.change(charge)


def check_transfer(params: dict[str, Any]) -> None:
    take.only(params, _TRANSFER)
    take.amount(params, take.currency(params))
    take.required(params, "destination")
    take.metadata(params)


def transfer(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    body = new_body(shelf, "tr", "transfer", params) | _money(params)
    body |= {"amount_reversed": 0, "reversed": False}
    body |= {name: params.get(name) for name in ("destination", "transfer_group")}
    return stored(shelf, body)


def check_payout(params: dict[str, Any]) -> None:
    take.only(params, _PAYOUT)
    take.amount(params, take.currency(params))
    take.metadata(params)


def payout(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    body = new_body(shelf, "po", "payout", params) | _money(params)
    body |= {"arrival_date": int(shelf.now) + 86400, "status": "pending"}
    if shelf.call.fault.processing:
        shelf.settle_later(body, "paid" if shelf.call.fault.then == "succeeded" else "failed")
    else:
        body["status"] = "paid"
    shelf.fail_later(body)
    return stored(shelf, body)


def stored(shelf: Shelf, body: dict[str, Any], *, event: str = "") -> Outcome:
    """Keeps a new object, its effect and its event."""
    shelf.put(body)
    shelf.effect(body["object"], body, {})
    shelf.event(event or f"{body['object']}.created", body)
    return Outcome(200, body)


def new_body(shelf: Shelf, prefix: str, kind: str, params: dict[str, Any]) -> dict[str, Any]:
    """What every object has."""
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
