"""The UNKNOWN queue by cause. One outage is one group, however many operations it left behind."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Count as DbCount
from django.db.models import Max, Min, Q, QuerySet
from django.db.models.fields.json import KT
from django.http import HttpRequest

from console.presentation import words
from console.presentation.amounts import Amount
from console.presentation.words import Headline
from console.queries import actors, looking, overview, queues
from console.search.fields import UNREACHABLE
from console.search.operations import Count, OperationSearch, quickly
from operations.models import Event, Operation
from reconcilers.models import ProviderAccount

#: Rows that a group shows; the rest is one link away.
ROWS_SHOWN: Final = 12
MOST_GROUPS: Final = 40

#: What can be done now -> its search term, in the order of urgency.
KINDS: Final = (
    ("ready", "Ready to settle", "shield-check"),
    ("conflict", "Conflict", "git-compare"),
    ("unreachable", "Provider unreachable", "unplug"),
    ("waiting", "Waiting for horizon", "hourglass"),
)

_CAUSES: Final = {
    "": "not asked yet",
    "not_looked_yet": "not asked yet",
    "nobody_to_ask": "nobody to ask",
    "no_lookup": "no look-up can find it",
    "effect_not_reached": "it arrived, its effect was refused or undone",
    "first_send_unknown": "nobody knows when it was first sent",
    "cannot_be_proved": "look-ups cannot prove it",
    "cannot_prove_absence": "nothing found, which proves nothing yet",
    "before_settle_point": "nothing found yet",
    "one_more_read": "nothing found, one more read to come",
    "empty_not_counted": "nothing found, but not surely in the right place",
    "sender_unknown": "nobody knows until when it could be sent",
    "other_content": "found with other content",
    "another_marker": "found under another key",
    "two_objects": "found more than once",
    "effect_pending": "it exists, its effect is still open",
    "cannot_look": "the provider does not answer",
}


@dataclass(frozen=True)
class Tab:
    """One kind with its exact count and the query that lists it."""

    key: str
    label: str
    icon: str
    query: str
    count: Count
    current: bool


@dataclass(frozen=True)
class Group:
    """Operations that are UNKNOWN for the same reason at the same account."""

    key: str
    kind: str
    account: str
    cause: str
    headline: Headline
    number: int
    runs: int
    oldest: datetime
    next_look_at: datetime | None
    rows: list[Operation] = field(default_factory=list)


@dataclass(frozen=True)
class Settled:
    """When the last one left the queue, and by whom."""

    at: datetime
    by: str


@dataclass(frozen=True)
class Board:
    """The page. `all` is the query without the kind that was chosen."""

    search: OperationSearch
    tabs: list[Tab]
    at_risk: list[Amount]
    groups: list[Group]
    looking: dict[UUID, str]
    everything: Count
    all: str
    last_settled: Settled | None

    @property
    def chosen(self) -> bool:
        """Is one of the kinds chosen?"""
        return any(tab.current for tab in self.tabs)


def board(request: HttpRequest, query: str) -> Board:
    """Read the queue, narrowed by the query."""
    search = queues.unknown(request, query)
    others = [str(term) for term in search.terms if term.field != "is"]
    whole = queues.unknown(request, " ".join(others))
    groups = _groups(search)
    shown = [row.pk for group in groups for row in group.rows]
    return Board(
        search=search,
        tabs=_tabs(search),
        at_risk=overview.at_risk(search),
        groups=groups,
        looking=looking.who_looks(shown),
        everything=whole.count(),
        all=whole.text,
        last_settled=None if groups else _last_settled(),
    )


def _tabs(search: OperationSearch) -> list[Tab]:
    chosen = {value for term in search.terms if term.field == "is" for value in term.values}
    tabs = []
    for key, label, icon in KINDS:
        narrowed = search.narrowed(f"is:{key}")
        tabs.append(Tab(key, label, icon, narrowed.text, narrowed.count(), key in chosen))
    return tabs


def _groups(search: OperationSearch) -> list[Group]:
    names = {str(pk): name for pk, name in ProviderAccount.objects.values_list("pk", "name")}
    with quickly():
        found = list(
            search.rows()
            .order_by()
            .annotate(kind=KT("verdict__kind"), code=KT("verdict__code"))
            .values("kind", "code", "waiting_on", "due_look__lane")
            .annotate(
                number=DbCount("id"),
                runs=DbCount("run", distinct=True),
                oldest=Min("standing__since"),
                next_look_at=Min("due_look__due_at"),
            )[:MOST_GROUPS]
        )
        groups = [
            Group(
                key=_key(one["kind"], one["code"], one["waiting_on"], one["due_look__lane"]),
                kind=_kind(one["kind"], one["waiting_on"]),
                account=names.get(one["due_look__lane"] or "", ""),
                cause=_CAUSES.get(one["code"] or "", (one["code"] or "").replace("_", " ")),
                headline=words.verdict_headline(one["kind"]),
                number=one["number"],
                runs=one["runs"],
                oldest=one["oldest"],
                next_look_at=one["next_look_at"],
            )
            for one in found
        ]
        for group in groups:
            rows = members(search, group.key).select_related("run").order_by("id")
            group.rows.extend(rows[:ROWS_SHOWN])
    order = [kind for kind, _, _ in KINDS]
    return sorted(groups, key=lambda group: (order.index(group.kind), group.oldest))


def _kind(verdict: str | None, waiting_on: str | None) -> str:
    if verdict in words.CONFLICTS:
        return "conflict"
    if waiting_on == "person":
        return "ready"
    return "unreachable" if verdict == UNREACHABLE else "waiting"


def _key(*parts: str | None) -> str:
    return "|".join(part or "" for part in parts)


def members(search: OperationSearch, key: str) -> QuerySet[Operation]:
    """The operations of one group; nothing where the key is none of ours."""
    parts = key.split("|")
    if len(parts) != 4:
        return search.rows().none()
    kind, code, waiting_on, lane = parts
    same = Q(verdict__kind=kind) if kind else Q(verdict__isnull=True)
    if kind:
        same &= Q(verdict__code=code) if code else Q(verdict__code__isnull=True)
    same &= Q(due_look__lane=lane) if lane else Q(due_look__isnull=True)
    return search.rows().filter(same, waiting_on=waiting_on)


def _last_settled() -> Settled | None:
    newest = Event.objects.aggregate(id=Max("id"))["id"] or 0
    recent = Event.objects.filter(id__gt=newest - 50_000, type="operation.reconciled")
    with quickly():
        event = recent.order_by("-id").first()
    if event is None:
        return None
    return Settled(event.at, actors.names([event.actor])[event.actor])
