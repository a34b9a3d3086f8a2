"""Facts and looks as the verdict meets them, with defaults that each test bends."""

from datetime import UTC, datetime, timedelta
from typing import Any

from reconcilers.evidence import Facts, Look, Outcome, Sighting, Stage, Way

SENT = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)
KEY = "a" * 64

GET = Way(name="get", lookup_class="A", words="Stripe's answer by id")
LIST = Way(name="list", lookup_class="B", words="Stripe's list", exhaustive=True)
SEARCH = Way(name="search", lookup_class="C", words="Search", lag=timedelta(hours=1))
EVENTS = Way(name="events", lookup_class="E", words="Stripe's events")


def after(seconds: float) -> datetime:
    return SENT + timedelta(seconds=seconds)


def facts(**changes: Any) -> Facts:
    """An unknown charge of 250.00 USD, fenced, sent at SENT; S is 1000 s later."""
    known: dict[str, Any] = {
        "state": "UNKNOWN",
        "tool_class": "unsafe",
        "marker": KEY,
        "environment": "test",
        "first_send_at": SENT,
        "unknown_since": after(90),
        "emits_until": after(100),
        "lifetime": timedelta(seconds=900),
        "deadline_at": after(86_400),
        "ways": (GET, LIST, SEARCH),
        "provider_title": "Stripe",
        "amount_minor": 25_000,
        "currency": "USD",
        "fenced": True,
    }
    return Facts(**(known | changes))


def sighting(**changes: Any) -> Sighting:
    known: dict[str, Any] = {
        "id": "pi_1",
        "kind": "payment_intent",
        "status": "succeeded",
        "stage": Stage.DONE,
        "marker": KEY,
        "verified": True,
        "amount_minor": 25_000,
        "currency": "USD",
        "mode": "test",
    }
    return Sighting(**(known | changes))


def look(outcome: str, at: float, **changes: Any) -> Look:
    """A look that began `at` seconds after SENT; complete and controlled unless said otherwise."""
    known: dict[str, Any] = {
        "lookup": "list",
        "lookup_class": "B",
        "outcome": Outcome(outcome),
        "started_at": after(at),
        "ended_at": after(at + 0.2),
        "complete": True,
        "exhaustive": True,
        "control_passed": True,
        "covers_from": SENT - timedelta(minutes=10),
        "reason": "no answer within 15 s" if outcome == "cannot_look" else "",
    }
    return Look(**(known | changes))


def hit(at: float, **changes: Any) -> Look:
    """A list that showed one object."""
    seen = sighting(**changes)
    return look("pending" if seen.stage is Stage.IN_FLIGHT else "hit", at, sightings=(seen,))
