"""Crash drills: what the lab has shown on this installation. None has run until one is recorded."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.views.rendering import page

#: Levels of guard and what theory expects of each in the windows W1 to W4.
LEVELS = (
    ("0", "Naive resume", ("once", "once", "twice", "twice")),
    ("1", "Arguments hashed as key", ("once", "unknown", "unknown", "once")),
    ("2", "Stable key", ("once", "once", "once", "once")),
    ("3", "Durable execution", ("once", "once", "once", "once")),
    ("4", "Atomic commit", ("once", "once", "once", "once")),
    ("5", "Unknown and reconcile", ("once", "once", "once", "once")),
)


@require_safe
def drills(request: HttpRequest) -> HttpResponse:
    """`/drills/`."""
    return page(request, "drills.html", {})
