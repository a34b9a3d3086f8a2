"""Runs, and the trace of one: what was done afresh, what was answered from the record."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.queries import runs as queries
from console.views.rendering import page
from operations import ids
from operations.models import Run
from operations.models.runs import RUN_STATUSES


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """`/runs/?status=&agent=&after=`."""
    status = request.GET.get("status", "")
    status = status if status in RUN_STATUSES else ""
    agent = request.GET.get("agent", "").strip()
    listed = queries.listed(
        request,
        status=status,
        agent=agent,
        after=ids.parse_handle("run", request.GET.get("after", "")),
    )
    context = {"runs": listed, "status": status, "agent": agent, "statuses": RUN_STATUSES}
    return page(request, "runs.html", context, {"rows": "rows"})


@require_safe
def run(request: HttpRequest, handle: str) -> HttpResponse:
    """`/runs/run_…/`."""
    key = ids.parse_handle("run", handle)
    found = Run.objects.filter(pk=key).first() if key else None
    if found is None:
        raise Http404(handle)
    offset = request.GET.get("from", "0")
    trace = queries.trace(
        found, first_step=int(offset) if offset.isascii() and offset.isdigit() else 0
    )
    return page(request, "run.html", {"run": found, "trace": trace}, {"trace": "trace"})
