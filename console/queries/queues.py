"""The three queues. Each has one query object, which its page, badge and tile all count with."""

from typing import Final

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from approvals.models import ApprovalRequest, User
from console.presentation import times
from console.queries import clock
from console.search.fields import Viewer
from console.search.grammar import Term
from console.search.operations import Count, OperationSearch, capped
from operations import states
from operations.models import Incident

ENVIRONMENTS: Final = ("live", "test")

#: Search fields that an incident answers itself, operation or not.
_OF_INCIDENTS: Final = {"env": "environment", "ns": "namespace", "inc": "kind"}


def environment(request: HttpRequest) -> str:
    """What the person chose to work on; empty for everything. Links carry it as `env:`."""
    chosen = str(request.session.get("environment", ""))
    return chosen if chosen in ENVIRONMENTS else ""


def scope(request: HttpRequest) -> str:
    """The chosen environment as a search term, or nothing."""
    chosen = environment(request)
    return f"env:{chosen}" if chosen else ""


def viewer(request: HttpRequest) -> Viewer:
    """Whose zone relative times are read in, and one clock for the whole request."""
    known: Viewer | None = getattr(request, "viewer", None)
    if known is None:
        user = request.user
        zone = times.zone_of(user.time_zone if isinstance(user, User) else "UTC")
        known = Viewer(zone=zone, now=clock.now())
        request.viewer = known  # type: ignore[attr-defined]
    return known


def operations(request: HttpRequest, query: str) -> OperationSearch:
    """Any operations, the newest first."""
    return OperationSearch(query, viewer(request))


def unknown(request: HttpRequest, query: str) -> OperationSearch:
    """Operations that are UNKNOWN, narrowed by the query; the oldest first."""
    base = Q(standing__state=states.UNKNOWN)
    return OperationSearch(query, viewer(request), base=base, oldest_first=True)


def approvals(search: OperationSearch, status: str = "pending") -> QuerySet[ApprovalRequest]:
    """Requests of one status for the operations that the search finds.

    What is past its deadline is no longer pending, whether the sweep has been by or not.
    """
    found = ApprovalRequest.objects.filter(status=status)
    if search.terms or search.problem:
        found = found.filter(operation__in=search.rows())
    if status == "pending":
        return found.filter(expires_at__gt=Now()).order_by("expires_at", "id")
    return found.order_by("-id")


def incidents(search: OperationSearch, *, resolved: bool = False) -> QuerySet[Incident]:
    """Open incidents, or resolved ones; the newest first. Not each has an operation."""
    found = Incident.objects.filter(resolved_at__isnull=not resolved).order_by("-id")
    if search.problem:
        return found.none()
    if all(_is_of_incidents(term) for term in search.terms):
        for term in search.terms:
            matches = Q(**{f"{_OF_INCIDENTS[term.field]}__in": term.values})
            found = found.exclude(matches) if term.negated else found.filter(matches)
        return found
    return found.filter(operation__in=search.rows())


def _is_of_incidents(term: Term) -> bool:
    named = not any(value.startswith("inc_") for value in term.values)
    return term.field in _OF_INCIDENTS and term.operator == "in" and named


def unknown_count(request: HttpRequest) -> Count:
    """The badge of the UNKNOWN queue."""
    return unknown(request, scope(request)).count()


def approval_count(request: HttpRequest) -> Count:
    """The badge of the approval queue."""
    return capped(approvals(operations(request, scope(request))))


def incident_count(request: HttpRequest) -> Count:
    """The badge of the alerts page."""
    return capped(incidents(operations(request, scope(request))))
