"""PaymentIntents: create, confirm, capture, cancel, and the charge that each try leaves behind."""

from typing import Any

from crashlab.provider import params as take
from crashlab.provider.answers import Outcome, error, invalid, missing
from crashlab.provider.shelf import Shelf, new_id

_CREATE = take.names(
    "amount currency customer description metadata confirm payment_method payment_method_types"
    " automatic_payment_methods capture_method confirmation_method off_session receipt_email"
    " return_url setup_future_usage statement_descriptor statement_descriptor_suffix"
    " transfer_group expand error_on_requires_action"
)
_UPDATE = take.names("amount currency description metadata payment_method customer expand")
_CONFIRM = take.names("payment_method return_url off_session expand error_on_requires_action")
_OPEN = ("requires_payment_method", "requires_confirmation", "requires_action")
_DECLINES = {
    "pm_card_chargeDeclined": ("card_declined", "generic_decline", "Your card was declined."),
    "pm_card_chargeDeclinedInsufficientFunds": (
        "card_declined",
        "insufficient_funds",
        "Your card has insufficient funds.",
    ),
    "pm_card_chargeDeclinedExpiredCard": ("expired_card", None, "Your card has expired."),
}


def check_create(params: dict[str, Any]) -> None:
    take.only(params, _CREATE)
    take.amount(params, take.currency(params))
    take.metadata(params)
    if take.flag(params, "confirm") and not params.get("payment_method"):
        raise invalid(
            "You cannot confirm this PaymentIntent because it's missing a payment method.",
            code="payment_intent_unexpected_state",
            param="payment_method",
        )


def create(shelf: Shelf, params: dict[str, Any]) -> Outcome:
    unit = take.currency(params)
    identifier = new_id("pi")
    intent: dict[str, Any] = {
        "id": identifier,
        "object": "payment_intent",
        "amount": take.amount(params, unit),
        "amount_capturable": 0,
        "amount_received": 0,
        "capture_method": params.get("capture_method", "automatic"),
        "client_secret": f"{identifier}_secret_{new_id('x')[2:]}",
        "confirmation_method": "automatic",
        "created": int(shelf.now),
        "currency": unit,
        "customer": params.get("customer"),
        "description": params.get("description"),
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": shelf.call.account.livemode,
        "metadata": take.metadata(params),
        "next_action": None,
        "payment_method": params.get("payment_method"),
        "payment_method_types": params.get("payment_method_types") or ["card"],
        "receipt_email": params.get("receipt_email"),
        "status": "requires_confirmation"
        if params.get("payment_method")
        else "requires_payment_method",
        "transfer_group": params.get("transfer_group"),
    }
    if clock := shelf.clock_of(params.get("customer")):
        intent["test_clock"] = clock
    shelf.put(intent)
    shelf.event("payment_intent.created", intent)
    if take.flag(params, "confirm"):
        return _try(shelf, intent)
    return Outcome(200, intent)


def check_update(params: dict[str, Any]) -> None:
    take.only(params, _UPDATE)
    take.metadata(params)


def update(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    intent = _existing(shelf, identifier)
    intent["metadata"] |= take.metadata(params)
    for name in ("description", "customer", "payment_method"):
        if name in params:
            intent[name] = params[name]
    if "amount" in params:
        intent["amount"] = take.amount(params, intent["currency"])
    shelf.change(intent)
    return Outcome(200, intent)


def check_confirm(params: dict[str, Any]) -> None:
    take.only(params, _CONFIRM)


def confirm(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    intent = _existing(shelf, identifier)
    intent["payment_method"] = params.get("payment_method") or intent["payment_method"]
    if intent["status"] not in _OPEN or not intent["payment_method"]:
        return _unexpected(intent, "confirm")
    return _try(shelf, intent)


def capture(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    intent = _existing(shelf, identifier)
    if intent["status"] != "requires_capture":
        return _unexpected(intent, "capture")
    intent |= {"status": "succeeded", "amount_received": intent["amount"], "amount_capturable": 0}
    shelf.change(intent)
    shelf.event("payment_intent.succeeded", intent)
    return Outcome(200, intent)


def cancel(shelf: Shelf, identifier: str, params: dict[str, Any]) -> Outcome:
    intent = _existing(shelf, identifier)
    if intent["status"] in ("succeeded", "canceled", "processing"):
        return _unexpected(intent, "cancel")
    intent["status"] = "canceled"
    shelf.change(intent)
    shelf.event("payment_intent.canceled", intent)
    return Outcome(200, intent)


def finish(shelf: Shelf, identifier: str, then: str) -> None:
    """What was `processing` becomes `succeeded`, or fails as a bank debit does."""
    intent = shelf.get("payment_intent", identifier)
    if intent is None or intent["status"] != "processing":
        return
    if then == "succeeded":
        _succeed(shelf, intent)
    else:
        _decline(shelf, intent, ("payment_method_bank_debit_failed", None, "The debit failed."))


def _try(shelf: Shelf, intent: dict[str, Any]) -> Outcome:
    method, fault = intent["payment_method"], shelf.call.fault
    decline = _DECLINES.get(method)
    if fault.decline:
        decline = (fault.decline, "generic_decline", "Your card was declined.")
    if decline is not None:
        return _decline(shelf, intent, decline)
    if method == "pm_card_authenticationRequired":
        intent |= {"status": "requires_action", "next_action": {"type": "use_stripe_sdk"}}
        shelf.change(intent)
        shelf.event("payment_intent.requires_action", intent)
        return Outcome(200, intent)
    if fault.processing or method.startswith("pm_usBankAccount"):
        intent["status"] = "processing"
        shelf.change(intent)
        shelf.event("payment_intent.processing", intent)
        if fault.processing_seconds is not None:
            data = {"call": shelf.call.document(), "id": intent["id"], "then": fault.then}
            shelf.later(fault.processing_seconds, "finish", data)
        return Outcome(200, intent)
    return _succeed(shelf, intent)


def _succeed(shelf: Shelf, intent: dict[str, Any]) -> Outcome:
    held = intent["capture_method"] == "manual"
    charge = _charge(shelf, intent, "succeeded", captured=not held)
    intent |= {
        "status": "requires_capture" if held else "succeeded",
        "amount_received": 0 if held else intent["amount"],
        "amount_capturable": intent["amount"] if held else 0,
        "latest_charge": charge["id"],
    }
    shelf.change(intent)
    shelf.effect("charge", intent, {"customer": intent["customer"]})
    shelf.event("charge.succeeded", charge)
    kind = "amount_capturable_updated" if held else "succeeded"
    shelf.event(f"payment_intent.{kind}", intent)
    return Outcome(200, intent)


def _decline(shelf: Shelf, intent: dict[str, Any], decline: tuple[str, str | None, str]) -> Outcome:
    code, decline_code, message = decline
    charge = _charge(shelf, intent, "failed", captured=False)
    problem = error(
        "card_error", message, code=code, decline_code=decline_code, charge=charge["id"]
    )
    intent |= {
        "status": "requires_payment_method",
        "latest_charge": charge["id"],
        "last_payment_error": dict(problem["error"]),
        "payment_method": None,
    }
    shelf.change(intent)
    shelf.event("charge.failed", charge)
    shelf.event("payment_intent.payment_failed", intent)
    problem["error"]["payment_intent"] = intent
    return Outcome(402, problem)


def _charge(shelf: Shelf, intent: dict[str, Any], status: str, *, captured: bool) -> dict[str, Any]:
    charge = {
        "id": new_id("ch"),
        "object": "charge",
        "amount": intent["amount"],
        "amount_refunded": 0,
        "captured": captured,
        "created": int(shelf.now),
        "currency": intent["currency"],
        "customer": intent["customer"],
        "livemode": intent["livemode"],
        "metadata": dict(intent["metadata"]),
        "paid": status == "succeeded",
        "payment_intent": intent["id"],
        "refunded": False,
        "status": status,
        "transfer_group": intent["transfer_group"],
    }
    if "test_clock" in intent:
        charge["test_clock"] = intent["test_clock"]
    shelf.put(charge)
    return charge


def _existing(shelf: Shelf, identifier: str) -> dict[str, Any]:
    intent = shelf.get("payment_intent", identifier)
    if intent is None:
        raise missing("payment_intent", identifier, param="intent")
    return intent


def _unexpected(intent: dict[str, Any], verb: str) -> Outcome:
    message = f"You cannot {verb} this PaymentIntent because it has a status of {intent['status']}."
    code = "payment_intent_unexpected_state"
    return Outcome(400, error("invalid_request_error", message, code=code, payment_intent=intent))
