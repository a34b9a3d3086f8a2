"""Signing a settlement of an UNKNOWN operation."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.csp import csp_override
from django.views.decorators.http import require_POST, require_safe

from approvals import attachments, dossier, resolutions
from approvals.attachments import Undoing
from approvals.models import Resolution, ReviewerKey, User
from approvals.signing import Ceremony
from console.presentation import fetched_words
from console.queries import operation as operation_queries
from console.views import ceremony
from console.views.ceremony import SIGNING_CSP, Subject, session_of, shown_as
from console.views.people import person
from operations import rows
from operations.models import Operation
from reconcilers import single_object


class SettlementSubject(Subject):
    """One operation that is UNKNOWN, or was a moment ago."""

    field = "choice"
    words: ClassVar[Mapping[str, tuple[str, str]]] = {
        "settle-committed": ("It happened", "Sign that it happened"),
        "settle-absent": ("It did not happen", "Sign that it did not happen"),
        "release": ("Release it: it may run again", "Sign the release"),
        "compensate": ("Compensate", "Sign the compensation"),
    }
    template = "signing/settle_form.html"
    receipt_name = "settle-receipt"

    def __init__(self, handle: str) -> None:
        self.handle = handle
        self.operation = _operation(handle)
        self.back = reverse("operation", args=[handle])
        self.finish_url = reverse("settle-finish", args=[handle])

    @property
    def tool(self) -> str:
        """The call's tool."""
        return self.operation.tool

    def min_custody(self) -> str:
        """What the rule of the call asks for."""
        with rows.hot_cursor() as cur:
            op = rows.read(cur, op_id=self.operation.id)
            return dossier.custody_of(dossier.rule_of(cur, op)) if op is not None else "A2"

    def form(self, user: User, choice: str) -> dict[str, Any]:
        """The call as it was recorded, and what the provider showed so far."""
        with rows.hot_cursor() as cur:
            op = rows.read(cur, op_id=self.operation.id)
            if op is None:
                raise Http404(self.handle)
            shown = dossier.show(cur, op)
        return {
            "operation": self.operation,
            **shown_as(shown),
            "suggested": "",
            "why_not": resolutions.why_not(user, self.handle, choice),
        }

    def start(
        self, request: HttpRequest, user: User, choice: str, key: ReviewerKey
    ) -> tuple[Ceremony, dict[str, Any]]:
        """Build the statement of this choice over the evidence as it stands.

        An object that is named is fetched first: outside any transaction, for a few seconds.
        """
        ref = _ref(request, choice)
        undoing = _undoing(request) if choice == "compensate" else None
        why_not = resolutions.why_not(user, self.handle, choice)
        fetched = single_object.fetch(self.operation.id, ref) if ref and not why_not else None
        begun = resolutions.start(
            user,
            session_of(request),
            self.handle,
            choice,
            key=key,
            provider_ref=ref,
            reason=request.POST.get("reason", ""),
            opened=request.POST.getlist("opened"),
            fetched=fetched.document() if fetched else None,
            compensation=undoing,
        )
        return begun, {
            "fetched": fetched and fetched_words.of(fetched, self.operation),
            "undoing": undoing and shown_as(attachments.shown(undoing)),
        }

    def finish(self, request: HttpRequest, user: User, answer: object) -> str:
        """Record the resolution, and carry it out where one signature is enough."""
        statement = request.POST.get("statement", "")
        return resolutions.finish(user, session_of(request), statement, answer).decision_id


@require_safe
@csp_override(SIGNING_CSP)
def settle_form(request: HttpRequest, handle: str) -> HttpResponse:
    """`/ops/op_…/settle/sign/?choice=`: the object, the reason, the key. Nothing is stored."""
    return ceremony.form(request, SettlementSubject(handle))


@require_POST
@csp_override(SIGNING_CSP)
def settle_start(request: HttpRequest, handle: str) -> HttpResponse:
    """The statement with one button; the operation's own page posts here."""
    return ceremony.start(request, SettlementSubject(handle))


@require_POST
@csp_override(SIGNING_CSP)
def settle_finish(request: HttpRequest, handle: str) -> HttpResponse:
    """Take the answer."""
    return ceremony.finish(request, SettlementSubject(handle))


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
    return ceremony.receipt(request, context)


def _ref(request: HttpRequest, choice: str) -> str | None:
    """The panel has one field for all choices; what was typed for another one is not signed."""
    said = request.POST.get("provider_ref", "") if choice == "settle-committed" else ""
    return said.strip() or None


def _undoing(request: HttpRequest) -> Undoing:
    return attachments.undoing(request.POST.get("tool", ""), request.POST.get("args", ""))


def _operation(handle: str) -> Operation:
    found = operation_queries.find(handle)
    if found is None:
        raise Http404(handle)
    return found
