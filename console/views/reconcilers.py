"""How the looks at each provider are doing."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.queries import health as queries
from console.queries import queues
from console.views.rendering import page
from reconcilers import registry
from reconcilers.reading import hook_health


@require_safe
def reconcilers(request: HttpRequest) -> HttpResponse:
    """`/reconcilers/`."""
    context = {
        "accounts": queries.accounts(),
        "sweeps": queries.checks(queues.viewer(request).now),
        "hooks": hook_health(),
        "kinds": list(registry.providers().values()),
    }
    return page(request, "reconcilers.html", context, {"health": "health"})
