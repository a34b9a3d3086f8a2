"""The UNKNOWN queue: what may have happened, grouped by cause, with who looks at what."""

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from approvals import permissions
from console.queries import asking, looking, people, queues, triage
from console.views.operations import listing
from console.views.people import person
from console.views.rendering import page


@require_safe
def unknown(request: HttpRequest) -> HttpResponse:
    """`/unknown/?q=`."""
    query = request.GET.get("q", "")
    board = triage.board(request, query)
    context = {
        "board": board,
        "cannot_take": people.why_not(person(request), "settle"),
        "cannot_ask": people.why_not(person(request), "handle"),
        **listing(request, board.search),
    }
    return page(request, "unknown.html", context, {"queue": "queue"})


@require_POST
def take_next(request: HttpRequest) -> HttpResponse:
    """Claim the next one that can be settled for ten minutes, and go there."""
    user = person(request)
    permissions.check_may(user, "settle")
    query = request.POST.get("q", "")
    taken = looking.take_next(request, user, query)
    if taken is None:
        return redirect(reverse("unknown") + "?" + urlencode({"q": query, "none": "1"}))
    return redirect("operation", taken.handle)


@require_POST
def ask_for_group(request: HttpRequest) -> HttpResponse:
    """Look again now for every operation of one group."""
    user = person(request)
    permissions.check_may(user, "handle")
    query = request.POST.get("q", "")
    rows = triage.members(queues.unknown(request, query), request.POST.get("group", ""))
    count = asking.ask_for_all(rows.order_by("id")[: asking.MOST_AT_ONCE], actor=f"user:{user.pk}")
    messages.info(request, f"The provider will be asked about {count} operations.")
    return redirect(reverse("unknown") + "?" + urlencode({"q": query}))
