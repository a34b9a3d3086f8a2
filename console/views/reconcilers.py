"""How the looks at each provider are doing."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.queries import clock, lanes
from console.queries import health as queries
from console.views.rendering import page


@require_safe
def reconcilers(request: HttpRequest) -> HttpResponse:
    """`/reconcilers/`."""
    now = clock.now()
    context = {
        "lanes": lanes.lanes(now),
        "sweeps": queries.checks(now),
        "kinds": lanes.kinds(),
    }
    return page(request, "reconcilers.html", context, {"health": "health"})
