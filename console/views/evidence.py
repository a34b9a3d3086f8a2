"""Evidence to take away: bundles of operations, and the audit log as a file.

Taking it is logged and may show arguments, so it is a POST that the role allows.
"""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from approvals import bundles, permissions
from console.queries import audit_export
from console.queries.audit import Filters
from console.views.people import person


@require_POST
def operation_bundle(request: HttpRequest, handle: str) -> HttpResponse:
    """`/ops/op_…/bundle/`: the operation with its newest approval."""
    user = person(request)
    permissions.check_may(user, "reveal")
    return _file(*bundles.of_operation(user, handle), "application/zip")


@require_POST
def approval_bundle(request: HttpRequest, handle: str) -> HttpResponse:
    """`/approvals/apr_…/bundle/`: one approval and its operation."""
    user = person(request)
    permissions.check_may(user, "reveal")
    return _file(*bundles.of_approval(user, handle), "application/zip")


@require_POST
def audit_file(request: HttpRequest) -> HttpResponse:
    """`/audit/export/`: what the list shows, as NDJSON (exact) or CSV (for a spreadsheet)."""
    user = person(request)
    permissions.check_may(user, "export_audit")
    asked = Filters(
        type=request.POST.get("type", "").strip(),
        actor=request.POST.get("actor", "").strip(),
        op=request.POST.get("op", "").strip(),
    )
    if request.POST.get("format") == "csv":
        return _file(*audit_export.as_csv(user, asked), "text/csv; charset=utf-8")
    return _file(*audit_export.as_ndjson(user, asked), "application/x-ndjson")


def _file(name: str, body: bytes, kind: str) -> HttpResponse:
    return HttpResponse(
        body,
        content_type=kind,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
