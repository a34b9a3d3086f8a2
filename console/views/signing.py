"""Signing a decision: a form, the bytes with one button, a receipt. GET never changes anything.

`start` builds the statement and shows it; `finish` takes the answer and redirects to the receipt,
so that a reload signs nothing twice.
"""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.csp import csp_override
from django.views.decorators.http import require_POST, require_safe

from approvals import decisions, permissions
from approvals.errors import Refused
from approvals.models import ApprovalRequest, Decision
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

DENY_REASONS: Final = (
    ("wrong_payee", "wrong payee"),
    ("wrong_amount", "wrong amount"),
    ("not_expected", "not expected"),
    ("ask_requester", "ask the requester"),
    ("other", "other"),
)
VERDICTS: Final = {"approve": ("Approve", "Approve and sign"), "deny": ("Deny", "Deny and sign")}


@require_safe
@csp_override(SIGNING_CSP)
def approval_form(request: HttpRequest, handle: str) -> HttpResponse:
    """`/approvals/apr_…/sign/?verdict=`: why, with which key. Nothing is stored."""
    verdict = request.GET.get("verdict", "")
    if verdict not in VERDICTS:
        raise Http404(verdict)
    return _approval_form(request, handle, verdict)


def _approval_form(
    request: HttpRequest, handle: str, verdict: str, error: Refused | None = None
) -> HttpResponse:
    user = person(request)
    found = _approval(handle)
    with rows.hot_cursor() as cur:
        shown = decisions.show(cur, found)
    context = {
        "asked": found,
        "verdict": verdict,
        "title": VERDICTS[verdict][0],
        "operation": found.operation,
        **shown_as(shown),
        "keys": permissions.usable_keys(user, found.min_custody),
        "why_not": decisions.why_not(user, handle, verdict),
        "reasons": DENY_REASONS,
        "must_open": [one for one in shown.leaves if one.folded and verdict == "approve"],
        "error": error,
        "given": request.POST,
        "back": f"/approvals/{handle}/",
    }
    status = error.status if error else 200
    return render(request, "signing/approval_form.html", context, status=status)


@require_POST
@csp_override(SIGNING_CSP)
def approval_start(request: HttpRequest, handle: str) -> HttpResponse:
    """Build the statement and show it, with one button."""
    user = person(request)
    found = _approval(handle)
    verdict = request.POST.get("verdict", "")
    if verdict not in VERDICTS:
        raise Http404(verdict)
    try:
        key = chosen_key(user, request.POST.get("key", ""), found.min_custody)
        ceremony = decisions.start(
            user,
            session_of(request),
            handle,
            verdict,
            key=key,
            reason=request.POST.get("reason", ""),
            reason_code=_code(request),
            opened=request.POST.getlist("opened"),
        )
    except Refused as error:
        if error.code == "VALIDATION_ERROR":
            return _approval_form(request, handle, verdict, error)
        return refused(request, error, f"/approvals/{handle}/")
    return sign_page(
        request,
        ceremony,
        title=VERDICTS[verdict][0],
        button=f"{VERDICTS[verdict][1]}: {found.operation.tool}",
        verdict=verdict,
        finish=f"/approvals/{handle}/sign/finish/",
        back=f"/approvals/{handle}/",
    )


@require_POST
@csp_override(SIGNING_CSP)
def approval_finish(request: HttpRequest, handle: str) -> HttpResponse:
    """Take the answer; the receipt is another page."""
    try:
        decided = decisions.finish(
            person(request),
            session_of(request),
            request.POST.get("statement", ""),
            answer_of(request),
            approval_id=handle,
        )
    except DomainError as error:
        return refused(request, error, f"/approvals/{handle}/")
    return redirect("approval-receipt", handle=handle, decision_id=decided.decision_id)


@require_safe
def approval_receipt(request: HttpRequest, handle: str, decision_id: str) -> HttpResponse:
    """`/approvals/apr_…/receipt/sha256:…/`: what was recorded, for whoever signed it."""
    found = _approval(handle)
    decision = Decision.objects.filter(
        decision_id=decision_id, request=found, user=person(request)
    ).first()
    if decision is None:
        raise Http404(decision_id)
    context = {"decision": decision, "asked": found, "operation": found.operation}
    return receipt(request, context)


def _approval(handle: str) -> ApprovalRequest:
    try:
        return decisions.find(handle)
    except Refused:
        raise Http404(handle) from None


def _code(request: HttpRequest) -> str:
    code = request.POST.get("reason_code", "")
    return code if code in dict(DENY_REASONS) else ""
