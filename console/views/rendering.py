"""One address for a page and for its parts: htmx asks for a part by the id it will fill."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.queries import queues

#: Ids of page parts that refresh by themselves -> the partial of the page's template.
type Parts = Mapping[str, str]


def page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    parts: Parts | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page, or the one part of it that is asked for."""
    known = queues.viewer(request)
    values = {"now": known.now, **context}
    target = request.headers.get("HX-Target", "").partition("#")[2]
    wants_part = request.headers.get("HX-Request-Type") == "partial"
    if wants_part and parts and target in parts:
        template = f"{template}#{parts[target]}"
    return render(request, template, values, status=status)
