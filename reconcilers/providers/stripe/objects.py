"""Stripe's objects as data: where they are listed, and what each status says about the effect.

Sources: SDK docstrings of stripe 16.1 and docs.stripe.com (paymentintents/lifecycle, refunds,
payouts, subscriptions/overview), as gathered in the design's provider facts, section 1.4.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from reconcilers.evidence import Sighting, Stage

MARKER: Final = "idem_key"
FINGERPRINT: Final = "args_fingerprint"

DONE, OPEN, NOT = Stage.DONE, Stage.IN_FLIGHT, Stage.NOT_REACHED


@dataclass(frozen=True, kw_only=True)
class ObjectType:
    """One kind of object.

    `deletable`: an object may vanish from its list again, so that an empty list is no proof.
    `statuses` is empty where existing is all there is: `created` and `reached` are one. `caveats`
    says what a status does not promise. `amount` names the member to compare. `events` are the
    types that tell of its creation and its ends. `parents` maps the prefix of another object's id
    to the list filter that takes it; `clock` is the filter that shows what lives under a test
    clock (`test_clock` itself, or the `customer` who is under one). `grouped`: it has a
    `transfer_group`, which the caller chooses and lists filter by.
    """

    path: str
    prefixes: tuple[str, ...]
    statuses: Mapping[str, Stage] = field(default_factory=dict)
    amount: str = "amount"
    searchable: bool = False
    deletable: bool = False
    list_filters: Mapping[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    parents: Mapping[str, str] = field(default_factory=dict)
    clock: str = ""
    grouped: bool = False
    caveats: Mapping[str, str] = field(default_factory=dict)


OBJECTS: Final[dict[str, ObjectType]] = {
    "payment_intent": ObjectType(
        path="payment_intents",
        prefixes=("pi_",),
        searchable=True,
        events=(
            "payment_intent.created",
            "payment_intent.processing",
            "payment_intent.succeeded",
            "payment_intent.payment_failed",
            "payment_intent.amount_capturable_updated",
            "payment_intent.canceled",
        ),
        parents={"cus_": "customer"},
        clock="customer",
        caveats={"requires_capture": "a hold was placed; nothing has been captured"},
        statuses={
            "succeeded": DONE,
            "requires_capture": DONE,
            "processing": OPEN,
            "requires_action": OPEN,
            "requires_confirmation": OPEN,
            # The attempt was refused, or none was made; the same intent can still succeed.
            "requires_payment_method": OPEN,
            "canceled": NOT,
        },
    ),
    "charge": ObjectType(
        path="charges",
        prefixes=("ch_", "py_"),
        searchable=True,
        events=("charge.succeeded", "charge.pending", "charge.failed"),
        parents={"pi_": "payment_intent", "cus_": "customer"},
        clock="customer",
        grouped=True,
        statuses={"succeeded": DONE, "pending": OPEN, "failed": NOT},
    ),
    "refund": ObjectType(
        path="refunds",
        prefixes=("re_", "pyr_"),
        events=("refund.created", "refund.updated", "refund.failed"),
        parents={"pi_": "payment_intent", "ch_": "charge", "py_": "charge"},
        caveats={"succeeded": "a refund may still fail up to 30 days later"},
        statuses={
            "succeeded": DONE,
            "pending": OPEN,
            "requires_action": OPEN,
            "failed": NOT,
            "canceled": NOT,
        },
    ),
    "transfer": ObjectType(
        path="transfers",
        prefixes=("tr_",),
        events=("transfer.created", "transfer.updated", "transfer.reversed"),
        grouped=True,
        caveats={"reversed": "it was made, and has been reversed since"},
    ),
    "payout": ObjectType(
        path="payouts",
        prefixes=("po_",),
        events=("payout.created", "payout.paid", "payout.failed", "payout.canceled"),
        caveats={"paid": "a payout may still fail within five business days"},
        statuses={
            "paid": DONE,
            "pending": OPEN,
            "in_transit": OPEN,
            "failed": NOT,
            "canceled": NOT,
        },
    ),
    "subscription": ObjectType(
        path="subscriptions",
        prefixes=("sub_",),
        searchable=True,
        events=("customer.subscription.created", "customer.subscription.deleted"),
        parents={"cus_": "customer"},
        clock="test_clock",
        caveats={
            "incomplete": "it was made; its first payment has about 23 hours",
            "incomplete_expired": "it was made, and its first payment never came",
            "canceled": "it was made, and has been canceled since",
            "past_due": "it exists; its latest invoice is not paid",
            "unpaid": "it exists; its latest invoice is not paid",
        },
        amount="",
        # Without this filter the list leaves out canceled ones.
        list_filters={"status": "all"},
        statuses={
            "active": DONE,
            "trialing": DONE,
            "past_due": DONE,
            "unpaid": DONE,
            "paused": DONE,
            "incomplete": OPEN,
            "incomplete_expired": NOT,
            "canceled": NOT,
        },
    ),
    "invoice": ObjectType(
        path="invoices",
        prefixes=("in_",),
        searchable=True,
        events=("invoice.created", "invoice.paid", "invoice.voided", "invoice.deleted"),
        parents={"cus_": "customer", "sub_": "subscription"},
        clock="customer",
        caveats={
            "draft": "it was made, and nothing has been asked of the customer",
            "open": "it was made, and is not paid",
            "void": "it was made, and has been voided since",
            "uncollectible": "it was made, and will not be paid",
        },
        deletable=True,
        amount="total",
        statuses={"paid": DONE, "draft": OPEN, "open": OPEN, "void": NOT, "uncollectible": NOT},
    ),
    "customer": ObjectType(
        path="customers",
        prefixes=("cus_",),
        searchable=True,
        deletable=True,
        amount="",
        events=("customer.created", "customer.deleted"),
        clock="test_clock",
        caveats={"deleted": "it was made, and has been deleted since"},
    ),
}


def kind_of(object_id: str) -> str | None:
    """The kind of object that an id names, by its prefix."""
    for kind, described in OBJECTS.items():
        if object_id.startswith(described.prefixes):
            return kind
    return None


def marker_of(body: Mapping[str, Any], *, grouped: bool = False) -> str | None:
    """The text where our key belongs; `grouped` also takes it from the transfer group."""
    marker = (body.get("metadata") or {}).get(MARKER)
    if marker is None and grouped:
        marker = body.get("transfer_group")
    return marker if isinstance(marker, str) else None


def sighting_of(
    kind: str, body: Mapping[str, Any], *, verified: bool, marker: str | None = None
) -> Sighting:
    """Read one object; a status that this table does not know counts as still open.

    `marker` is what is known of it from elsewhere, where the object itself holds none.
    """
    described = OBJECTS[kind]
    metadata = body.get("metadata") or {}
    status, stage = _status(described, body)
    amount = body.get(described.amount) if described.amount else None
    currency = body.get("currency")
    created = body.get("created")
    return Sighting(
        id=str(body["id"]),
        kind=kind,
        status=status,
        stage=stage,
        marker=marker_of(body) or marker,
        verified=verified,
        amount_minor=amount if isinstance(amount, int) else None,
        currency=currency.upper() if isinstance(currency, str) and described.amount else None,
        fingerprint=metadata.get(FINGERPRINT),
        mode=mode_of(body),
        detail=_DETAILS.get(kind, _no_detail)(body) or described.caveats.get(status, ""),
        created_at=datetime.fromtimestamp(created, UTC) if isinstance(created, int) else None,
    )


def mode_of(body: Mapping[str, Any]) -> str:
    """`live` or `test`, empty where the object does not say."""
    livemode = body.get("livemode")
    return "" if livemode is None else "live" if livemode else "test"


def _status(described: ObjectType, body: Mapping[str, Any]) -> tuple[str, Stage]:
    if body.get("deleted"):
        return "deleted", NOT
    status = str(body.get("status") or "")
    if not described.statuses:
        return status or ("reversed" if body.get("reversed") else "exists"), DONE
    return status, described.statuses.get(status, OPEN)


def _payment_intent_detail(body: Mapping[str, Any]) -> str:
    problem = body.get("last_payment_error") or {}
    if problem:
        return f"last attempt refused: {problem.get('decline_code') or problem.get('code')}"
    if body.get("status") == "requires_payment_method" and not body.get("latest_charge"):
        return "no payment was ever attempted"
    return ""


def _failure_detail(body: Mapping[str, Any]) -> str:
    reason = body.get("failure_reason") or body.get("failure_code")
    return f"failed: {reason}" if reason else ""


def _no_detail(_body: Mapping[str, Any]) -> str:
    return ""


_DETAILS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "payment_intent": _payment_intent_detail,
    "charge": _failure_detail,
    "refund": _failure_detail,
    "payout": _failure_detail,
}
