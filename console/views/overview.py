"""The overview: four tiles, the person's own queue, and whether the machine room is alive."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from console import navigation as rail
from console.queries import overview as queries
from console.queries import queues
from console.views.rendering import page


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """`/`. A person without anything to look at is led through the first steps."""
    context = {"board": queries.board(request)}
    return page(request, "overview.html", context, {"board": "board"})


@require_POST
def choose_environment(request: HttpRequest) -> HttpResponse:
    """Work on live, on test, or on both: links then carry it in the address."""
    chosen = request.POST.get("environment", "")
    if chosen in queues.ENVIRONMENTS:
        request.session["environment"] = chosen
    else:
        request.session.pop("environment", None)
    return redirect("overview")


@require_safe
def navigation(request: HttpRequest) -> HttpResponse:
    """The rail alone, for pages whose badges are out of date."""
    return page(request, "components/navigation_items.html", {"items": rail.rail(request)})
