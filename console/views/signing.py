"""Signing a decision on an approval request."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.csp import csp_override
from django.views.decorators.http import require_POST, require_safe

from approvals import decisions
from approvals.errors import Refused
from approvals.models import ApprovalRequest, Decision, ReviewerKey, User
from approvals.signing import Ceremony
from console.views import ceremony
from console.views.ceremony import SIGNING_CSP, Subject, session_of, shown_as
from console.views.people import person
from operations import rows

#: Offered to everybody, for every deny: what the agent is told.
DENY_REASONS: Final = (
    ("wrong_payee", "wrong payee"),
    ("wrong_amount", "wrong amount"),
    ("not_expected", "not expected"),
    ("ask_requester", "ask the requester"),
    ("other", "other"),
)


class ApprovalSubject(Subject):
    """One approval request."""

    field = "verdict"
    words: ClassVar[Mapping[str, tuple[str, str]]] = {
        "approve": ("Approve", "Approve and sign"),
        "deny": ("Deny", "Deny and sign"),
    }
    template = "signing/approval_form.html"
    receipt_name = "approval-receipt"

    def __init__(self, handle: str) -> None:
        self.handle = handle
        self.asked = _approval(handle)
        self.back = reverse("approval", args=[handle])
        self.finish_url = reverse("approval-finish", args=[handle])

    @property
    def tool(self) -> str:
        """The call's tool."""
        return self.asked.operation.tool

    def min_custody(self) -> str:
        """What the rule of the request asks for."""
        return self.asked.min_custody

    def form(self, user: User, choice: str) -> dict[str, Any]:
        """The exact arguments, and what has to be opened before approving."""
        with rows.hot_cursor() as cur:
            shown = decisions.show(cur, self.asked)
        return {
            "asked": self.asked,
            "operation": self.asked.operation,
            **shown_as(shown),
            "why_not": decisions.why_not(user, self.handle, choice),
            "reasons": DENY_REASONS,
            "must_open": [one for one in shown.leaves if one.folded and choice == "approve"],
        }

    def start(
        self, request: HttpRequest, user: User, choice: str, key: ReviewerKey
    ) -> tuple[Ceremony, dict[str, Any]]:
        """Build the statement of this verdict. A code is a denial's alone."""
        code = request.POST.get("reason_code", "") if choice == "deny" else ""
        begun = decisions.start(
            user,
            session_of(request),
            self.handle,
            choice,
            key=key,
            reason=request.POST.get("reason", ""),
            reason_code=code if code in dict(DENY_REASONS) else "",
            opened=request.POST.getlist("opened"),
        )
        return begun, {}

    def finish(self, request: HttpRequest, user: User, answer: object) -> str:
        """Record the decision."""
        statement = request.POST.get("statement", "")
        decided = decisions.finish(
            user, session_of(request), statement, answer, approval_id=self.handle
        )
        return decided.decision_id


@require_safe
@csp_override(SIGNING_CSP)
def approval_form(request: HttpRequest, handle: str) -> HttpResponse:
    """`/approvals/apr_…/sign/?verdict=`: why, with which key. Nothing is stored."""
    return ceremony.form(request, ApprovalSubject(handle))


@require_POST
@csp_override(SIGNING_CSP)
def approval_start(request: HttpRequest, handle: str) -> HttpResponse:
    """The statement with one button; the request's own page posts here."""
    return ceremony.start(request, ApprovalSubject(handle))


@require_POST
@csp_override(SIGNING_CSP)
def approval_finish(request: HttpRequest, handle: str) -> HttpResponse:
    """Take the answer."""
    return ceremony.finish(request, ApprovalSubject(handle))


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
    return ceremony.receipt(request, context)


def _approval(handle: str) -> ApprovalRequest:
    try:
        return decisions.find(handle)
    except Refused:
        raise Http404(handle) from None
