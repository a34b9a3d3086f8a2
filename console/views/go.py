"""`/go/<anything>`: an id, a key or a provider's id, resolved to its page."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console import navigation
from console.queries import resolving
from console.views.rendering import page


@require_safe
def go(request: HttpRequest, wanted: str = "") -> HttpResponse:
    """One hit: its page. Several: a list. None: a 404 that says what was tried."""
    wanted = (wanted or request.GET.get("q", "")).strip()
    if not wanted:
        return redirect("overview")
    if place := navigation.place_named(wanted):
        return redirect(place.name)
    hits = resolving.resolve(wanted)
    if len(hits) == 1:
        return redirect(hits[0].href)
    context = {"wanted": wanted, "hits": hits, "tried": resolving.TRIED}
    return page(request, "go.html", context, status=200 if hits else 404)


@require_safe
def suggestions(request: HttpRequest) -> HttpResponse:
    """What the palette offers for a text: ids and names only."""
    hits = resolving.resolve(request.GET.get("q", "").strip())[:8]
    return JsonResponse(
        {"hits": [{"href": hit.href, "label": hit.label, "kind": hit.kind} for hit in hits]}
    )
