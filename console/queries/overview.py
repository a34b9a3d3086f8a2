"""What the overview shows. Tiles count with the query objects of the lists that they link to."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Max, Min, Sum
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from approvals import permissions
from approvals.models import ApprovalRequest, User
from console.presentation import amounts
from console.presentation.amounts import Amount
from console.queries import health, queues
from console.search.operations import Count, OperationSearch, capped, quickly
from operations.ledger import soundness
from operations.models import Event, Operation, Standing

#: Older than this and the tile says that its limit is passed.
UNKNOWN_LIMIT: Final = timedelta(minutes=60)
APPROVAL_LIMIT: Final = timedelta(minutes=15)

#: Upper ends of the age bars; the last bar holds the rest.
_AGES: Final = (
    ("under 15 min", timedelta(minutes=15)),
    ("under 1 h", timedelta(hours=1)),
    ("under 4 h", timedelta(hours=4)),
    ("under 1 day", timedelta(days=1)),
)


@dataclass(frozen=True)
class Bar:
    """One bar of the age profile; `height` is out of 20."""

    label: str
    number: int
    height: int

    @property
    def top(self) -> int:
        """Where the bar begins, counted from above."""
        return 20 - self.height


@dataclass(frozen=True)
class Tile:
    """A number that links to exactly the rows it counts."""

    key: str
    label: str
    icon: str
    count: Count
    href: str
    oldest: datetime | None = None
    next_at: datetime | None = None
    note: str = ""
    over: bool = False


@dataclass(frozen=True)
class Task:
    """One line of the person's queue."""

    href: str
    operation: Operation
    says: str
    until: datetime | None = None

    @property
    def amount(self) -> Amount | None:
        """What the operation moves."""
        return amounts.of_operation(self.operation)


@dataclass(frozen=True)
class Board:
    """Everything on the page."""

    tiles: list[Tile]
    at_risk: list[Amount]
    ages: list[Bar]
    tasks: list[Task]
    checks: list[health.Check]
    settled_lately: dict[str, int]
    previous_visit: datetime | None
    is_empty: bool
    ledger_break: str


def board(request: HttpRequest) -> Board:
    """Read it all, in one environment or in both."""
    scope = queues.scope(request)
    unknown = queues.unknown(request, scope)
    viewer = queues.viewer(request)
    user = request.user
    previous = request.session.get("previous_visit")
    since = datetime.fromisoformat(previous) if previous else viewer.now - timedelta(days=1)
    return Board(
        tiles=[
            _unknown_tile(unknown, viewer.now),
            _approval_tile(request, scope, viewer.now),
            _stalled_tile(request, scope),
            health.tile(),
        ],
        at_risk=at_risk(unknown),
        ages=age_profile(unknown, viewer.now),
        tasks=tasks(request, user) if isinstance(user, User) else [],
        checks=health.checks(viewer.now),
        settled_lately=_settled_since(since),
        previous_visit=datetime.fromisoformat(previous) if previous else None,
        is_empty=not Operation.objects.exists(),
        ledger_break=ledger_break(),
    )


def ledger_break() -> str:
    """What does not fit about the ledger, and what to do; empty where it fits."""
    found = soundness.standing()
    return soundness.sentence(found) if found else ""


def _link(name: str, query: str) -> str:
    return reverse(name) + (f"?{urlencode({'q': query})}" if query else "")


def _unknown_tile(unknown: OperationSearch, now: datetime) -> Tile:
    with quickly():
        oldest = Standing.objects.filter(operation__in=unknown.rows()).aggregate(at=Min("since"))
    return Tile(
        key="unknown",
        label="Unknown",
        icon="diamond-help",
        count=unknown.count(),
        href=_link("unknown", unknown.text),
        oldest=oldest["at"],
        note="limit 60 min",
        over=bool(oldest["at"] and oldest["at"] < now - UNKNOWN_LIMIT),
    )


def _approval_tile(request: HttpRequest, scope: str, now: datetime) -> Tile:
    waiting = queues.approvals(queues.operations(request, scope))
    first = waiting.first()
    return Tile(
        key="waiting",
        label="Approvals",
        icon="stamp",
        count=capped(waiting),
        href=_link("approvals", scope),
        next_at=first.expires_at if first else None,
        note="warned 15 min before",
        over=bool(first and first.expires_at < now + APPROVAL_LIMIT),
    )


def _stalled_tile(request: HttpRequest, scope: str) -> Tile:
    stalled = queues.operations(request, f"is:stalled {scope}".strip())
    with quickly():
        oldest = stalled.rows().aggregate(at=Min("updated_at"))
    return Tile(
        key="stalled",
        label="Stalled",
        icon="triangle-alert",
        count=stalled.count(),
        href=_link("operations", stalled.text),
        oldest=oldest["at"],
        note="approved, not run for 5 min",
        over=oldest["at"] is not None,
    )


def at_risk(search: OperationSearch) -> list[Amount]:
    """What the operations move, one sum for each currency and never across."""
    with quickly():
        sums = list(
            search.rows()
            .exclude(amount_minor=None)
            .order_by()
            .values("currency")
            .annotate(total=Sum("amount_minor"))
        )
    return [amounts.amount(int(row["total"]), row["currency"]) for row in sums]


def age_profile(search: OperationSearch, now: datetime) -> list[Bar]:
    """How long they have been UNKNOWN: a bar for each span of age."""
    with quickly():
        ages = [
            now - since
            for since in Standing.objects.filter(operation__in=search.rows()).values_list(
                "since", flat=True
            )[:1000]
        ]
    numbers = []
    lower = timedelta(0)
    for label, upper in _AGES:
        numbers.append((label, sum(lower <= age < upper for age in ages)))
        lower = upper
    numbers.append(("older", sum(age >= lower for age in ages)))
    most = max((number for _, number in numbers), default=0) or 1
    return [Bar(label, number, round(20 * number / most)) for label, number in numbers]


def tasks(request: HttpRequest, user: User, most: int = 6) -> list[Task]:
    """What this person can do now: decisions that run out first, then what is ready to settle."""
    scope = queues.scope(request)
    found: list[Task] = []
    if permissions.may(user, "decide"):
        waiting = queues.approvals(queues.operations(request, scope)).select_related("operation")
        found += [_to_decide(asked) for asked in waiting[:most]]
    if permissions.may(user, "settle"):
        ready = queues.unknown(request, f"is:ready {scope}".strip()).rows().order_by("id")
        contested = queues.unknown(request, f"is:conflict {scope}".strip()).rows().order_by("id")
        found += [_to_settle(row, "evidence contradicts") for row in contested[:most]]
        found += [_to_settle(row, "ready to settle") for row in ready[:most]]
    return found[:most]


def _to_decide(asked: ApprovalRequest) -> Task:
    return Task(
        href=reverse("approval", args=[asked.handle]),
        operation=asked.operation,
        says="decide within",
        until=asked.expires_at,
    )


def _to_settle(operation: Operation, says: str) -> Task:
    return Task(href=reverse("operation", args=[operation.handle]), operation=operation, says=says)


def _settled_since(moment: datetime) -> dict[str, int]:
    """How many left UNKNOWN since then, by who settled them. Looks at the newest events only."""
    newest = Event.objects.aggregate(id=Max("id"))["id"] or 0
    with quickly():
        actors = Event.objects.filter(
            id__gt=newest - 50_000, at__gt=moment, type="operation.reconciled"
        ).values_list("actor", flat=True)[:5000]
        counts = {"evidence": 0, "people": 0}
        for actor in actors:
            counts["people" if actor.startswith("user:") else "evidence"] += 1
    return counts
