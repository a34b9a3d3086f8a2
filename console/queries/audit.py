"""Sealed events by filter, the newest first. The seal's number is the cursor."""

import base64
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.db.models import Max, Q, QuerySet

from approvals.models import User
from console.queries import actors
from console.search.operations import PAGE, quickly
from operations import ids
from operations.ids import handle
from operations.ledger import soundness
from operations.models import Event, SealedEvent, SequencerState
from operations.models import Log as LedgerLog

#: Beginnings of event types, as the filter offers them.
TYPES: Final = (
    ("", "All kinds"),
    ("operation.", "Operations"),
    ("approval.", "Approvals"),
    ("incident.", "Incidents"),
    ("key.", "Keys"),
    ("account.", "Provider accounts"),
    ("run.", "Runs"),
)
#: Kinds whose subject has a name of its own.
_NAMED: Final = ("key.", "account.")


@dataclass(frozen=True)
class Filters:
    """What the person asked for."""

    type: str = ""
    actor: str = ""
    op: str = ""
    before: int | None = None

    def older(self, seq: int) -> str:
        """The query of the next page."""
        kept = replace(self, before=seq)
        return urlencode({name: value for name, value in kept.__dict__.items() if value})


@dataclass(frozen=True)
class Entry:
    """One sealed event."""

    seq: int
    sealed_at: datetime
    event: Event
    by: str
    operation: str | None
    approval: str | None
    named: str
    reason: str


@dataclass(frozen=True)
class Proof:
    """The Merkle log behind the page. `broken`: what does not fit, and what to do."""

    origin: str
    entries: int
    signed: int
    signed_at: datetime | None
    root: str
    note: str
    checked_at: datetime | None
    broken: str


@dataclass(frozen=True)
class Log:
    """One page of the log."""

    entries: list[Entry]
    older: str | None
    sealed_to: int
    sealed_at: datetime | None
    unsealed: int
    proof: Proof
    problem: str = ""


def proof() -> Proof:
    """What is signed about the log, and what the running check has found."""
    log = LedgerLog.objects.order_by("-id").first()
    newest = log.checkpoints.order_by("-size").first() if log else None
    found = soundness.standing()
    return Proof(
        origin=log.origin if log else "",
        entries=log.size if log else 0,
        signed=newest.size if newest else 0,
        signed_at=newest.published_at if newest else None,
        root=base64.b64encode(bytes(newest.root)).decode() if newest else "",
        note=newest.note if newest else "",
        checked_at=log.checked_at if log else None,
        broken=soundness.sentence(found) if found else "",
    )


def read(asked: Filters) -> Log:
    """One page of sealed events."""
    state = SequencerState.objects.first()
    rows = SealedEvent.objects.select_related("event").order_by("-seq")
    problem = ""
    if asked.op and not ids.parse_handle("op", asked.op):
        problem = f"“{asked.op}” is no operation id."
    rows = filtered(rows, asked)
    with quickly():
        listed = list(rows[: PAGE + 1])
    names = actors.names(row.event.actor for row in listed)
    more = len(listed) > PAGE
    listed = listed[:PAGE]
    return Log(
        entries=[_entry(row, names) for row in listed],
        older=asked.older(listed[-1].seq) if more else None,
        sealed_to=state.last_seq if state else 0,
        sealed_at=state.ran_at if state else None,
        unsealed=_unsealed(),
        proof=proof(),
        problem=problem,
    )


def filtered(rows: QuerySet[SealedEvent], asked: Filters) -> QuerySet[SealedEvent]:
    """What the person asked for; nothing where the operation is no id."""
    if asked.before:
        rows = rows.filter(seq__lt=asked.before)
    if asked.type:
        rows = rows.filter(event__type__startswith=asked.type)
    if asked.op:
        operation = ids.parse_handle("op", asked.op)
        rows = rows.filter(event__operation=operation) if operation else rows.none()
    if asked.actor:
        rows = rows.filter(_by(asked.actor))
    return rows


def _by(actor: str) -> Q:
    """An actor as stored, or a person's e-mail address or name."""
    if ":" in actor:
        return Q(event__actor=actor)
    people = User.objects.filter(Q(email=actor.lower()) | Q(name__iexact=actor))
    return Q(event__actor__in=[f"user:{user.pk}" for user in people] + [f"system:{actor}"])


def _entry(row: SealedEvent, names: dict[str, str]) -> Entry:
    event = row.event
    named = event.data.get("operation")
    approval = event.data.get("approval")
    return Entry(
        seq=row.seq,
        sealed_at=row.sealed_at,
        event=event,
        by=names.get(event.actor, event.actor),
        operation=handle("op", event.operation_id) if event.operation_id else named,
        approval=approval if isinstance(approval, str) else None,
        named=str(event.data.get("name", "")) if event.type.startswith(_NAMED) else "",
        reason=str(event.data.get("reason", "")) if event.type.startswith("account.") else "",
    )


def _unsealed() -> int:
    """How many committed events still wait for their seal, roughly: the tail of the ids."""
    newest = Event.objects.aggregate(id=Max("id"))["id"] or 0
    with quickly():
        tail = Event.objects.filter(id__gt=newest - 1000, sealed=None)
        return tail.count()
