"""The rail, its badges and the keyboard shortcuts: one table each, read by pages and help alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.urls import reverse

from console.queries import queues
from console.search.operations import Count, TooBroad


@dataclass(frozen=True)
class Place:
    """A page of the rail. `badge` counts the very list that the page shows."""

    name: str
    label: str
    icon: str
    letter: str
    badge: Callable[[HttpRequest], Count] | None = None
    tone: str = ""
    scoped: bool = True


PLACES: Final = (
    Place("overview", "Overview", "layout-dashboard", "o", scoped=False),
    Place("unknown", "Unknown", "diamond-help", "u", queues.unknown_count, "unknown"),
    Place("approvals", "Approvals", "stamp", "a", queues.approval_count, "waiting"),
    Place("operations", "Operations", "list", "p"),
    Place("runs", "Runs", "waypoints", "r", scoped=False),
    Place("reconcilers", "Reconcilers", "radar", "c", scoped=False),
    Place("tools", "Tools & policies", "wrench", "t", scoped=False),
    Place("alerts", "Alerts", "bell", "l", queues.incident_count, "conflict"),
    Place("audit", "Audit", "scroll-text", "i", scoped=False),
    Place("drills", "Drills", "flask-conical", "d", scoped=False),
)


@dataclass(frozen=True)
class Item:
    """A place as one request sees it."""

    place: Place
    href: str
    current: bool
    count: Count | None


_BELONGS_TO: Final = {"operation": "operations", "approval": "approvals", "run": "runs"}


def here(request: HttpRequest) -> str:
    """The place that the page belongs to; a refreshed rail is told by its parameter."""
    matched = request.resolver_match
    name = request.GET.get("here") or (matched.url_name if matched else "") or ""
    head = name.partition("-")[0]
    return _BELONGS_TO.get(head, head)


def rail(request: HttpRequest) -> list[Item]:
    """The rail's items with their counts."""
    place_here = here(request)
    scope = queues.scope(request)
    return [
        Item(
            place=place,
            href=reverse(place.name) + (f"?q={scope}" if scope and place.scoped else ""),
            current=place_here == place.name,
            count=_count(place, request),
        )
        for place in PLACES
    ]


def _count(place: Place, request: HttpRequest) -> Count | None:
    """The badge, or none where counting takes too long: a page must not fail for it."""
    try:
        return place.badge(request) if place.badge else None
    except TooBroad:
        return None


def place_named(text: str) -> Place | None:
    """The place that somebody typed the name of."""
    word = text.lower()
    return next((p for p in PLACES if word in {p.name, p.label.lower()}), None)


@dataclass(frozen=True)
class Shortcut:
    """One line of the shortcut sheet."""

    keys: str
    does: str


SHORTCUTS: Final = (
    Shortcut("/", "Search this list"),
    Shortcut("Ctrl K", "Go to anything: paste an id, or type a page's name"),
    Shortcut("?", "This sheet"),
    *(Shortcut(f"g {place.letter}", f"Go to {place.label}") for place in PLACES),
    Shortcut("j", "Next row"),
    Shortcut("k", "Previous row"),
    Shortcut("Enter", "Open the row"),
    Shortcut("[", "Previous page"),
    Shortcut("]", "Next page"),
    Shortcut("e", "Open or close all arguments"),
    Shortcut("c", "Copy this page's id"),
    Shortcut("y", "Copy this page's link"),
    Shortcut("z", "Times in UTC or in your zone"),
    Shortcut("p", "Pause or resume live updates"),
    Shortcut("Esc", "Close"),
)
