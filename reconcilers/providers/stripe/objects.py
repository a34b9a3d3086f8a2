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
    `statuses` is empty where existing is all there is. `amount` names the member to compare.
    """

    path: str
    prefixes: tuple[str, ...]
    statuses: Mapping[str, Stage] = field(default_factory=dict)
    amount: str = "amount"
    searchable: bool = False
    deletable: bool = False
    list_filters: Mapping[str, str] = field(default_factory=dict)


OBJECTS: Final[dict[str, ObjectType]] = {
    "payment_intent": ObjectType(
        path="payment_intents",
        prefixes=("pi_",),
        searchable=True,
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
        statuses={"succeeded": DONE, "pending": OPEN, "failed": NOT},
    ),
    "refund": ObjectType(
        path="refunds",
        prefixes=("re_", "pyr_"),
        statuses={
            "succeeded": DONE,
            "pending": OPEN,
            "requires_action": OPEN,
            "failed": NOT,
            "canceled": NOT,
        },
    ),
    "transfer": ObjectType(path="transfers", prefixes=("tr_",)),
    "payout": ObjectType(
        path="payouts",
        prefixes=("po_",),
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
        deletable=True,
        amount="total",
        statuses={"paid": DONE, "draft": OPEN, "open": OPEN, "void": NOT, "uncollectible": NOT},
    ),
    "customer": ObjectType(
        path="customers", prefixes=("cus_",), searchable=True, deletable=True, amount=""
    ),
}


def kind_of(object_id: str) -> str | None:
    """The kind of object that an id names, by its prefix."""
    for kind, described in OBJECTS.items():
        if object_id.startswith(described.prefixes):
            return kind
    return None


def sighting_of(kind: str, body: Mapping[str, Any], *, verified: bool) -> Sighting:
    """Read one object; a status that this table does not know counts as still open."""
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
        marker=metadata.get(MARKER),
        verified=verified,
        amount_minor=amount if isinstance(amount, int) else None,
        currency=currency.upper() if isinstance(currency, str) and described.amount else None,
        fingerprint=metadata.get(FINGERPRINT),
        mode=mode_of(body),
        detail=_DETAILS.get(kind, _no_detail)(body),
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
