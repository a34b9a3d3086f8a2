"""From any id, key or provider id to the pages that it can mean."""

from dataclasses import dataclass
from typing import Final

from django.db.models import Q
from django.urls import reverse

from approvals.models import ApprovalRequest
from console.search.operations import quickly
from operations import ids
from operations.models import Incident, Operation, Run

#: Said on the page when nothing was found.
TRIED: Final = (
    "operation ids (op_…)",
    "approval ids (apr_…)",
    "run ids (run_…) and the runtimes' own names of runs",
    "incident ids (inc_…)",
    "idempotency keys, whole or their beginning (8 characters and more)",
    "provider ids (such as pi_…)",
    "tool call ids",
)
_SHORTEST_PREFIX: Final = 8
_MOST: Final = 20


@dataclass(frozen=True)
class Hit:
    """A page that the text can mean."""

    kind: str
    label: str
    href: str


def resolve(text: str) -> list[Hit]:
    """Every page it can mean; an exact id outranks all."""
    if not text or len(text) > 512 or "\x00" in text:
        return []
    exact = _by_handle(text)
    if exact:
        return [exact]
    return (_operations(text) + _runs(text))[:_MOST]


def _by_handle(text: str) -> Hit | None:
    if (key := ids.parse_handle("op", text)) and Operation.objects.filter(pk=key).exists():
        return Hit("operation", text, reverse("operation", args=[text.lower()]))
    if (key := ids.parse_handle("apr", text)) and ApprovalRequest.objects.filter(pk=key).exists():
        return Hit("approval", text, reverse("approval", args=[text.lower()]))
    if (key := ids.parse_handle("run", text)) and Run.objects.filter(pk=key).exists():
        return Hit("run", text, reverse("run", args=[text.lower()]))
    if (key := ids.parse_handle("inc", text)) and Incident.objects.filter(pk=key).exists():
        return Hit("incident", text, reverse("alerts-incident", args=[text.lower()]))
    return None


def _operations(text: str) -> list[Hit]:
    meant = Q(idem_key=text) | Q(provider_ref=text) | Q(tool_call_id=text)
    if len(text) >= _SHORTEST_PREFIX:
        meant |= Q(idem_key__startswith=text)
    with quickly():
        rows = list(Operation.objects.filter(meant).order_by("-id")[:_MOST])
    return [
        Hit("operation", f"{row.tool} · {row.handle}", reverse("operation", args=[row.handle]))
        for row in rows
    ]


def _runs(text: str) -> list[Hit]:
    with quickly():
        rows = list(Run.objects.filter(Q(run_id=text) | Q(trigger=text)).order_by("-id")[:_MOST])
    return [
        Hit("run", f"{row.run_id} · {row.agent}", reverse("run", args=[row.handle])) for row in rows
    ]
