"""The settle panel: every way out of UNKNOWN, whether it is open to this person, and why not.

What may be signed is decided by `approvals.settlement`; here it is put into words.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from approvals import dossier, permissions, resolutions, settlement
from approvals.models import ReviewerKey, User
from approvals.settlement import Situation
from console.queries.operation import OperationPage
from operations import rows, states


@dataclass(frozen=True)
class Choice:
    """One way out. `closed` says why it cannot be taken now, `opens_at` when it can."""

    key: str
    label: str
    tells: str
    then: str
    closed: str = ""
    opens_at: datetime | None = None
    needs_second: bool = False
    second_until: datetime | None = None


_LABELS = {
    "settle-committed": (
        "It happened",
        "You give the provider's own id where there is one; it is looked up before you sign.",
        "{run} goes on with this result. {tool} is not called again.",
    ),
    "settle-absent": (
        "It did not happen",
        "Closes it as failed. If it did happen after all, that becomes an incident.",
        "{run} is told that this call failed. {tool} is not called again under this key.",
    ),
    "release": (
        "Release",
        "It may run again with the same key. If it happened before, it may happen twice.",
        "{tool} may be called again by {run}.",
    ),
    "compensate": (
        "Compensate",
        "Opens a new operation that undoes this one, with its own key and approval.",
        "This one stays unknown until it is settled, and is never released.",
    ),
}


@dataclass(frozen=True)
class Panel:
    """The choices, the keys that may sign them, and an id that a look met, if only one did."""

    choices: list[Choice]
    keys: list[ReviewerKey]
    suggested_ref: str


def panel(page: OperationPage, user: User) -> Panel | None:
    """None unless the operation is UNKNOWN and the person may settle."""
    operation = page.operation
    if operation.state != states.UNKNOWN or not permissions.may(user, "settle"):
        return None
    with connection.cursor() as cur:
        op = rows.read(cur, op_id=operation.pk)
        if op is None or op.state != states.UNKNOWN:
            return None
        situation = resolutions.situation_of(cur, op)
        custody = dossier.custody_of(dossier.rule_of(cur, op))
    return Panel(
        choices=[_choice(page, user, key, situation) for key in _LABELS],
        keys=permissions.usable_keys(user, custody),
        suggested_ref=_suggested_ref(page),
    )


def _suggested_ref(page: OperationPage) -> str:
    """What was reported or seen under this key, where that is one object; two are for a person."""
    seen = {
        sighting["id"]
        for finding in page.findings
        for sighting in finding.objects_seen
        if sighting.get("marker") == page.operation.idem_key
    }
    seen |= {attempt.provider_ref for attempt in page.attempts if attempt.provider_ref}
    return seen.pop() if len(seen) == 1 else ""


def _choice(page: OperationPage, user: User, key: str, situation: Situation) -> Choice:
    label, tells, then = _LABELS[key]
    run = page.operation.run.run_id
    quiet_from, settles_at = situation.quiet_from, situation.settles_at
    waits = key == "release" and quiet_from is not None and situation.now < quiet_from
    return Choice(
        key=key,
        label=label,
        tells=tells,
        then=then.format(run=run, tool=page.operation.tool),
        closed=resolutions.why_not(user, page.operation.handle, key) or "",
        opens_at=quiet_from if waits else None,
        needs_second=settlement.needs_second(situation, key),
        second_until=settles_at if settles_at and settles_at > situation.now else None,
    )
