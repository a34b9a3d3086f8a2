"""Signing a settlement of an UNKNOWN operation: a form, the bytes with one button, a receipt."""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.csp import csp_override
from django.views.decorators.http import require_POST, require_safe

from approvals import dossier, permissions, resolutions
from approvals.models import Resolution
from console.queries import operation as operation_queries
from console.views.ceremony import (
    SIGNING_CSP,
    answer_of,
    chosen_key,
    receipt,
    refused,
    session_of,
    shown_as,
    sign_page,
)
from console.views.people import person
from operations import rows
from operations.errors import DomainError
from operations.models import Operation

CHOICES: Final = {
    "settle-committed": ("It happened", "Sign that it happened"),
    "settle-absent": ("It did not happen", "Sign that it did not happen"),
    "release": ("Release it: it may run again", "Sign the release"),
    "compensate": ("Compensate", "Sign the compensation"),
}


@require_safe
@csp_override(SIGNING_CSP)
def settle_form(request: HttpRequest, handle: str) -> HttpResponse:
    """`/ops/op_…/settle/sign/?choice=`: the object, the reason, the key. Nothing is stored."""
    choice = request.GET.get("choice", "")
    if choice not in CHOICES:
        raise Http404(choice)
    return _settle_form(request, handle, choice)


def _settle_form(
    request: HttpRequest, handle: str, choice: str, error: DomainError | None = None
) -> HttpResponse:
    user = person(request)
    operation = _operation(handle)
    with rows.hot_cursor() as cur:
        op = rows.read(cur, op_id=operation.id)
        if op is None:
            raise Http404(handle)
        rule = dossier.rule_of(cur, op)
        shown = dossier.show(cur, op)
    context = {
        "operation": operation,
        "choice": choice,
        "title": CHOICES[choice][0],
        **shown_as(shown),
        "keys": permissions.usable_keys(user, dossier.custody_of(rule)),
        "why_not": resolutions.why_not(user, handle, choice),
        "error": error,
        "given": request.POST,
        "back": f"/ops/{handle}/",
    }
    status = error.status if error else 200
    return render(request, "signing/settle_form.html", context, status=status)


@require_POST
@csp_override(SIGNING_CSP)
def settle_start(request: HttpRequest, handle: str) -> HttpResponse:
    """Build the statement and show it, with one button."""
    user = person(request)
    operation = _operation(handle)
    choice = request.POST.get("choice", "")
    if choice not in CHOICES:
        raise Http404(choice)
    try:
        key = chosen_key(user, request.POST.get("key", ""), _custody(operation))
        ceremony = resolutions.start(
            user,
            session_of(request),
            handle,
            choice,
            key=key,
            provider_ref=request.POST.get("provider_ref"),
            reason=request.POST.get("reason", ""),
            opened=request.POST.getlist("opened"),
        )
    except DomainError as error:
        if error.code == "VALIDATION_ERROR":
            return _settle_form(request, handle, choice, error)
        return refused(request, error, f"/ops/{handle}/")
    return sign_page(
        request,
        ceremony,
        title=CHOICES[choice][0],
        button=f"{CHOICES[choice][1]}: {operation.tool}",
        verdict=choice,
        finish=f"/ops/{handle}/settle/sign/finish/",
        back=f"/ops/{handle}/",
    )


@require_POST
@csp_override(SIGNING_CSP)
def settle_finish(request: HttpRequest, handle: str) -> HttpResponse:
    """Take the answer; the receipt is another page."""
    try:
        resolved = resolutions.finish(
            person(request), session_of(request), request.POST.get("statement", ""),
            answer_of(request),
        )  # fmt: skip
    except DomainError as error:
        return refused(request, error, f"/ops/{handle}/")
    return redirect("settle-receipt", handle=handle, decision_id=resolved.decision_id)


@require_safe
def settle_receipt(request: HttpRequest, handle: str, decision_id: str) -> HttpResponse:
    """`/ops/op_…/settle/receipt/sha256:…/`: what was recorded, for whoever signed it."""
    operation = _operation(handle)
    resolution = Resolution.objects.filter(
        decision_id=decision_id, operation=operation, user=person(request)
    ).first()
    if resolution is None:
        raise Http404(decision_id)
    context = {"decision": resolution, "resolution": resolution, "operation": operation}
    return receipt(request, context)


def _custody(operation: Operation) -> str:
    with rows.hot_cursor() as cur:
        op = rows.read(cur, op_id=operation.id)
        return dossier.custody_of(dossier.rule_of(cur, op)) if op is not None else "A2"


def _operation(handle: str) -> Operation:
    found = operation_queries.find(handle)
    if found is None:
        raise Http404(handle)
    return found
