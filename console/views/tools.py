"""Tools and policies: what the catalogue says, and what speaks against it."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from approvals import policies
from console.queries import queues
from console.queries import tools as queries
from console.views.rendering import page


@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    """`/tools/`."""
    context = {"catalogue": queries.catalogue_now(), "rules": policies.current()}
    return page(request, "tools.html", context)


@require_safe
def tool(request: HttpRequest, name: str) -> HttpResponse:
    """`/tools/<name>/`."""
    found = queries.find(name)
    if found is None:
        raise Http404(name)
    context = {
        "tool": found,
        "in_use": queues.operations(request, f"tool:{name}").count(),
        "rules": queries.rules_about(found.facts.name, found.facts.tool_class),
    }
    return page(request, "tool.html", context)
