"""The list of operations, and one of them."""

from hashlib import sha256
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from approvals import permissions
from console.presentation import visible
from console.queries import asking, people, queues, settlement
from console.queries import operation as operation_queries
from console.queries.operation import OperationPage
from console.search.fields import FIELDS
from console.search.operations import OperationSearch, Page, TooBroad
from console.views.people import person
from console.views.rendering import page
from operations import ids
from operations.models import Operation
from reconcilers.reading import raw_answer

#: Characters of a raw answer that are printed.
LONGEST_ANSWER: Final = 100_000
#: Ready-made searches of the list.
VIEWS: Final = (
    ("Newest", ""),
    ("Unknown", "state:unknown"),
    ("Waiting for approval", "state:waiting"),
    ("Stalled", "is:stalled"),
    ("Running", "state:running"),
    ("Failed", "state:failed"),
    ("With incidents", "has:incident"),
    ("Retried", "attempt:>1"),
)


@require_safe
def operations(request: HttpRequest) -> HttpResponse:
    """`/ops/?q=&after=&before=`."""
    search = queues.operations(request, request.GET.get("q", ""))
    return page(
        request,
        "operations.html",
        {"views": _views(request), **listing(request, search)},
        {"rows": "rows"},
    )


def listing(request: HttpRequest, search: OperationSearch) -> dict[str, object]:
    """What a list of operations shows; `too_broad` where the database gave up."""
    context: dict[str, object] = {"search": search, "fields": FIELDS, "list_url": request.path}
    try:
        rows: Page = search.page(
            after=ids.parse_handle("op", request.GET.get("after", "")),
            before=ids.parse_handle("op", request.GET.get("before", "")),
            top=ids.parse_handle("op", request.GET.get("top", "")),
        )
        context |= {"page": rows, "count": search.count()}
        if not rows.rows and search.terms and not request.GET.get("after"):
            context["drops"] = [
                (chip, OperationSearch(chip.without, search.viewer, base=search.base).count())
                for chip in search.chips()
            ]
    except TooBroad:
        context["too_broad"] = True
    return context


def _views(request: HttpRequest) -> list[tuple[str, str]]:
    scope = queues.scope(request)
    return [(label, f"{query} {scope}".strip()) for label, query in VIEWS]


@require_safe
def operation(request: HttpRequest, handle: str) -> HttpResponse:
    """`/ops/op_…/`, whole or the part that has changed."""
    shown = OperationPage(found(handle))
    user = person(request)
    context = {
        "view": shown,
        "operation": shown.operation,
        "cannot_ask": people.why_not(user, "handle"),
        "cannot_settle": people.why_not(user, "settle"),
        "settlement": settlement.panel(shown, user),
    }
    return page(
        request, "operation.html", context, {"facts": "facts", "story": "story", "ladder": "ladder"}
    )


@require_POST
def ask_provider(request: HttpRequest, handle: str) -> HttpResponse:
    """Look again now. The answer comes when the provider has given it."""
    target = found(handle)
    permissions.check_may(person(request), "handle")
    messages.info(request, asking.ask_again(target, actor=f"user:{person(request).pk}"))
    if request.headers.get("HX-Request-Type") == "partial":
        return _part_after_post(request, target)
    return redirect(reverse("operation", args=[target.handle]) + "#evidence")


def _part_after_post(request: HttpRequest, target: Operation) -> HttpResponse:
    shown = OperationPage(target)
    context = {"view": shown, "operation": target, "cannot_ask": ""}
    return page(request, "operation.html", context, {"ladder": "ladder"})


@require_safe
def look(request: HttpRequest, handle: str, finding: int) -> HttpResponse:
    """`/ops/op_…/looks/7/`: one raw answer, as inert text."""
    target = found(handle)
    answer = raw_answer(target.pk, finding)
    context: dict[str, object] = {"operation": target, "finding": finding}
    if answer is not None:
        text = visible.visible(answer.decode(errors="replace")[:LONGEST_ANSWER])
        context |= {"text": text, "sha256": sha256(answer).hexdigest(), "size": len(answer)}
    return page(request, "look.html", context)


@require_safe
def evidence_pack(request: HttpRequest, handle: str) -> HttpResponse:
    """`/ops/op_…/evidence/`: everything on one page, made to be printed."""
    shown = OperationPage(found(handle))
    context = {
        "view": shown,
        "operation": shown.operation,
        "bundle_url": reverse("operation-bundle", args=[handle]),
        "cannot_reveal": people.why_not(person(request), "reveal"),
    }
    return page(request, "evidence_pack.html", context)


def found(handle: str) -> Operation:
    """The operation, or a 404."""
    target = operation_queries.find(handle)
    if target is None:
        raise Http404(handle)
    return target
