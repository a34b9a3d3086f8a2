"""The UNKNOWN queue by cause, and who is looking at what.

A look is a claim on a person's attention for ten minutes, kept in the cache: it keeps two people
from working at the same thing and decides nothing. Losing it loses nothing.
"""

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.core.cache import cache
from django.db.models import Max
from django.http import HttpRequest

from approvals.models import User
from console.presentation import words
from console.presentation.amounts import Amount
from console.presentation.words import Headline
from console.queries import actors, overview, queues
from console.search.fields import UNREACHABLE
from console.search.operations import Count, OperationSearch, quickly
from operations.models import Event, Operation

LOOKING_SECONDS: Final = 600
#: Rows that are grouped by cause; what is beyond them is in the list.
MOST_ROWS: Final = 200

#: What can be done now -> its search term, in the order of urgency.
KINDS: Final = (
    ("ready", "Ready to settle", "shield-check"),
    ("conflict", "Conflict", "git-compare"),
    ("unreachable", "Provider unreachable", "unplug"),
    ("waiting", "Waiting for horizon", "hourglass"),
)


@dataclass(frozen=True)
class Tab:
    """One kind with its exact count and the query that lists it."""

    key: str
    label: str
    icon: str
    query: str
    count: Count
    current: bool


@dataclass
class Group:
    """Operations that are UNKNOWN for the same reason."""

    kind: str
    tool: str
    provider: str
    cause: str
    headline: Headline
    rows: list[Operation] = field(default_factory=list)


@dataclass(frozen=True)
class Board:
    """The page."""

    search: OperationSearch
    tabs: list[Tab]
    at_risk: list[Amount]
    groups: list[Group]
    looking: dict[uuid.UUID, str]
    total: Count
    everything: Count
    all: str
    last_settled: "Settled | None"

    @property
    def chosen(self) -> bool:
        """Is one of the kinds chosen?"""
        return any(tab.current for tab in self.tabs)

    @property
    def shown(self) -> int:
        """How many rows the groups hold."""
        return sum(len(group.rows) for group in self.groups)


@dataclass(frozen=True)
class Settled:
    """When the last one left the queue, and by whom."""

    at: datetime
    by: str


def board(request: HttpRequest, query: str) -> Board:
    """Read the queue, narrowed by the query."""
    search = queues.unknown(request, query)
    others = [str(term) for term in search.terms if term.field != "is"]
    whole = queues.unknown(request, " ".join(others))
    with quickly():
        rows = list(search.rows().select_related("run").order_by("id")[:MOST_ROWS])
    return Board(
        search=search,
        tabs=_tabs(search),
        at_risk=overview.at_risk(search),
        groups=_grouped(rows),
        looking=who_looks([row.pk for row in rows]),
        total=search.count(),
        everything=whole.count(),
        all=whole.text,
        last_settled=None if rows else _last_settled(),
    )


def _last_settled() -> Settled | None:
    newest = Event.objects.aggregate(id=Max("id"))["id"] or 0
    recent = Event.objects.filter(id__gt=newest - 50_000, type="operation.reconciled")
    with quickly():
        event = recent.order_by("-id").first()
    if event is None:
        return None
    return Settled(event.at, actors.names([event.actor])[event.actor])


def _tabs(search: OperationSearch) -> list[Tab]:
    chosen = {value for term in search.terms if term.field == "is" for value in term.values}
    tabs = []
    for key, label, icon in KINDS:
        narrowed = search.narrowed(f"is:{key}")
        tabs.append(Tab(key, label, icon, narrowed.text, narrowed.count(), key in chosen))
    return tabs


def kind_of(operation: Operation) -> str:
    """ready, conflict, unreachable or waiting."""
    verdict = words.verdict_kind(operation)
    if verdict in words.CONFLICTS:
        return "conflict"
    if operation.waiting_on == "person":
        return "ready"
    return "unreachable" if verdict == UNREACHABLE else "waiting"


def _grouped(rows: list[Operation]) -> list[Group]:
    groups: dict[tuple[str, str, str], Group] = {}
    for row in rows:
        kind = kind_of(row)
        verdict = words.verdict_kind(row)
        cause = str((row.verdict or {}).get("code") or verdict or "not asked yet")
        key = (kind, row.tool, cause)
        if key not in groups:
            groups[key] = Group(
                kind=kind,
                tool=row.tool,
                provider="",
                cause=cause.replace("_", " "),
                headline=words.verdict_headline(verdict),
            )
        groups[key].rows.append(row)
    order = [kind for kind, _, _ in KINDS]
    return sorted(groups.values(), key=lambda group: (order.index(group.kind), group.rows[0].pk))


def who_looks(operations: list[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Operation -> name of who claimed it lately. Empty where the cache is away."""
    if not operations:
        return {}
    try:
        found = cache.get_many([_key(operation) for operation in operations])
    except Exception:  # noqa: BLE001 -- a hint, and not worth an error page
        return {}
    return {
        operation: str(found[_key(operation)][1])
        for operation in operations
        if _key(operation) in found
    }


def take_next(request: HttpRequest, user: User, query: str) -> Operation | None:
    """The oldest that can be settled now and nobody else looks at; claimed by this person."""
    search = queues.unknown(request, query)
    for term in ("is:ready", "is:conflict"):
        narrowed = search.narrowed(term) if not _names_a_kind(search) else search
        for row in narrowed.rows().order_by("id")[:MOST_ROWS]:
            if claim_look(row, user):
                return row
    return None


def _names_a_kind(search: OperationSearch) -> bool:
    return any(term.field == "is" for term in search.terms)


def claim_look(operation: Operation, user: User) -> bool:
    """Note that this person looks at it; False where somebody else does."""
    mine = (str(user.pk), str(user))
    try:
        if cache.add(_key(operation.pk), mine, LOOKING_SECONDS):
            return True
        held = cache.get(_key(operation.pk))
    except Exception:  # noqa: BLE001 -- without the cache nobody is kept from working
        return True
    return held is None or held[0] == str(user.pk)


def _key(operation: uuid.UUID) -> str:
    return f"looking:{operation}"
