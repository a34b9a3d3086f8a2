"""The approval queue, and one request. Deciding happens on the signing pages."""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.queries import approval as approval_queries
from console.queries import people, queues
from console.queries.approval import STATUSES, ApprovalPage
from console.search.fields import FIELDS
from console.search.operations import PAGE, TooBroad, capped, quickly
from console.views.people import person
from console.views.rendering import page
from console.views.signing import DENY_REASONS
from operations import ids

TABS: Final = ("pending", "approved", "denied", "expired", "withdrawn", "superseded")


@require_safe
def approvals(request: HttpRequest) -> HttpResponse:
    """`/approvals/?q=&status=`: what waits, the soonest to expire first."""
    status = request.GET.get("status", "pending")
    status = status if status in STATUSES else "pending"
    search = queues.operations(request, request.GET.get("q", ""))
    context: dict[str, object] = {
        "search": search,
        "status": status,
        "fields": FIELDS,
        "headline": STATUSES[status],
        "cannot_decide": people.why_not(person(request), "decide"),
    }
    try:
        found = queues.approvals(search, status)
        older = ids.parse_handle("apr", request.GET.get("after", ""))
        rows = found.filter(id__lt=older) if older and status != "pending" else found
        with quickly():
            listed = list(rows.select_related("operation", "operation__run")[: PAGE + 1])
        context |= {
            "rows": listed[:PAGE],
            "older": listed[PAGE - 1].handle if len(listed) > PAGE else None,
            "tabs": [
                (name, STATUSES[name].word, capped(queues.approvals(search, name))) for name in TABS
            ],
        }
    except TooBroad:
        context["too_broad"] = True
    return page(request, "approvals.html", context, {"queue": "queue"})


@require_safe
def approval(request: HttpRequest, handle: str) -> HttpResponse:
    """`/approvals/apr_…/`: what would run, exactly. Nothing swaps it under a reader."""
    found = approval_queries.find(handle)
    if found is None:
        raise Http404(handle)
    shown = ApprovalPage(found, person(request))
    context = {
        "shown": shown,
        "asked": found,
        "view": shown.view,
        "operation": found.operation,
        "reasons": DENY_REASONS,
        "bundle_url": reverse("approval-bundle", args=[found.handle]),
        "cannot_reveal": people.why_not(person(request), "reveal"),
    }
    return page(request, "approval.html", context, {"actions": "actions", "status": "status"})
