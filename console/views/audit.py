"""The audit log: sealed events in their order."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.queries import audit as queries
from console.queries import people
from console.search.operations import TooBroad
from console.views.people import person
from console.views.rendering import page


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """`/audit/?type=&actor=&op=&before=`."""
    asked = queries.Filters(
        type=request.GET.get("type", "").strip(),
        actor=request.GET.get("actor", "").strip(),
        op=request.GET.get("op", "").strip(),
        before=_number(request.GET.get("before", "")),
    )
    context: dict[str, object] = {
        "asked": asked,
        "types": queries.TYPES,
        "cannot_export": people.why_not(person(request), "export_audit"),
    }
    try:
        context["log"] = queries.read(asked)
    except TooBroad:
        context["too_broad"] = True
    return page(request, "audit.html", context)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
