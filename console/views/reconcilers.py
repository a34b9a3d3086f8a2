"""How the looks at each provider are doing, and the switch that stops them."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from approvals.errors import Refused
from console import pausing
from console.queries import health as queries
from console.queries import people, provider_accounts, queues
from console.views.people import person
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
        "all_accounts": provider_accounts.every(),
        "kinds": list(registry.providers().values()),
        "cannot_pause": people.why_not(person(request), "handle"),
    }
    return page(request, "reconcilers.html", context, {"health": "health"})


@require_POST
def pause(request: HttpRequest, account: UUID) -> HttpResponse:
    """`/reconcilers/<account>/pause/`: pause it, or resume it, with a reason that is kept."""
    resumes = request.POST.get("resume") == "1"
    change = pausing.resume if resumes else pausing.pause
    try:
        changed = change(person(request), account, request.POST.get("reason", ""))
    except Refused as error:
        if error.code != "VALIDATION_ERROR":
            raise
        messages.error(request, f"Nothing was changed. {error.detail}")
        return redirect("reconcilers")
    said = "is asked again" if resumes else "is asked nothing until it is resumed"
    messages.success(request, f"{changed.name} {said}. Who and why stands in the audit.")
    return redirect("reconcilers")
