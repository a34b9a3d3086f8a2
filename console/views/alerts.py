"""Incidents: the open ones, and one of them."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from approvals import permissions
from console.queries import incidents as queries
from console.queries import people, queues
from console.search.fields import FIELDS
from console.search.operations import PAGE, TooBroad, capped, quickly
from console.views.people import person
from console.views.rendering import page
from operations import ids, incident_handling
from operations.errors import DomainError
from operations.models import Incident


@require_safe
def alerts(request: HttpRequest) -> HttpResponse:
    """`/alerts/?q=&resolved=1`."""
    resolved = request.GET.get("resolved") == "1"
    search = queues.operations(request, request.GET.get("q", ""))
    context: dict[str, object] = {"search": search, "resolved": resolved, "fields": FIELDS}
    try:
        found = queues.incidents(search, resolved=resolved)
        older = ids.parse_handle("inc", request.GET.get("after", ""))
        with quickly():
            rows = found.filter(id__lt=older) if older else found
            listed = list(rows.select_related("operation")[: PAGE + 1])
        context |= {
            "lines": [queries.line(row) for row in listed[:PAGE]],
            "older": listed[PAGE - 1].handle if len(listed) > PAGE else None,
            "count_open": capped(queues.incidents(search)),
            "count_resolved": capped(queues.incidents(search, resolved=True)),
        }
    except TooBroad:
        context["too_broad"] = True
    return page(request, "alerts.html", context, {"queue": "queue"})


@require_safe
def incident_page(request: HttpRequest, handle: str) -> HttpResponse:
    """`/alerts/inc_…/`."""
    return incident(request, handle)


def incident(
    request: HttpRequest, handle: str, *, problem: str = "", reason: str = ""
) -> HttpResponse:
    """The page, with what was wrong with the form where something was."""
    found = _found(handle)
    context = {
        "line": queries.line(found),
        "incident": found,
        "details": queries.details(found),
        "objects": queries.objects(found),
        "people": queries.handlers(found),
        "problem": problem,
        "reason": reason,
        "cannot_handle": people.why_not(person(request), "handle"),
    }
    return page(request, "incident.html", context, status=422 if problem else 200)


@require_POST
def acknowledge(request: HttpRequest, handle: str) -> HttpResponse:
    """Say that somebody is on it. It stays open until it is resolved."""
    found = _found(handle)
    user = person(request)
    permissions.check_may(user, "handle")
    if incident_handling.acknowledge(found.pk, actor=f"user:{user.pk}"):
        messages.success(request, "Acknowledged. It stays open until it is resolved.")
    else:
        messages.info(request, "Somebody acknowledged or resolved it before you.")
    return redirect("alerts-incident", found.handle)


@require_POST
def resolve(request: HttpRequest, handle: str) -> HttpResponse:
    """Close it, with what was done about it."""
    found = _found(handle)
    user = person(request)
    permissions.check_may(user, "handle")
    reason = request.POST.get("reason", "")
    try:
        done = incident_handling.resolve(found.pk, actor=f"user:{user.pk}", reason=reason)
    except DomainError as refused:
        return incident(request, handle, problem=refused.detail, reason=reason)
    if done:
        messages.success(request, "Resolved.")
    else:
        messages.info(request, "Somebody resolved it before you.")
    return redirect("alerts-incident", found.handle)


def _found(handle: str) -> Incident:
    found = queries.find(handle)
    if found is None:
        raise Http404(handle)
    return found
