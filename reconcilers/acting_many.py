"""Carrying out the plain conclusions among many together, in a handful of statements.

Plain: a found effect that ends UNKNOWN, and a verdict that keeps it UNKNOWN without an incident.
The operations floor checks once more, and leaves to `acting` what is not plain to it.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from operations import settling_many
from operations.actors import RECONCILER
from operations.settling_many import Held, Seen
from reconcilers import telling
from reconcilers.cases import Case

#: Fewer are no quicker together.
_MANY: Final = 2


def carry_out(cur: Any, cases: Sequence[Case]) -> dict[UUID, str]:
    """The states of those that were carried out here; the others are untouched."""
    if len(cases) < _MANY:
        return {}
    states: dict[UUID, str] = {}
    unknown = [case for case in cases if case.concluded.dossier.facts.state == "UNKNOWN"]
    commits = [_seen(case) for case in unknown if _is_plain_commit(case)]
    for op_id in settling_many.settle_committed_many(cur, commits, actor=RECONCILER):
        states[op_id] = "COMMITTED"
    holds = [_held(case) for case in unknown if _is_plain_hold(case)]
    for op_id in settling_many.hold_many(cur, holds, actor=RECONCILER):
        states[op_id] = "UNKNOWN"
    return states


def _is_plain_commit(case: Case) -> bool:
    concluded = case.concluded
    return concluded.exit.move == "commit" and concluded.verdict.kind == "committed"


def _is_plain_hold(case: Case) -> bool:
    return case.concluded.exit.move == "hold" and not case.concluded.exit.incident


def _seen(case: Case) -> Seen:
    concluded = case.concluded
    first = concluded.verdict.sightings[0]
    return Seen(
        op_id=case.operation_id,
        provider_ref=first.id,
        effect_status=first.status or None,
        verdict=telling.verdict_document(
            concluded.dossier,
            concluded.verdict,
            concluded.looks,
            exit_=concluded.exit,
            next_check_at=None,
        ),
        evidence=telling.evidence(concluded.dossier, concluded.verdict, concluded.looks),
    )


def _held(case: Case) -> Held:
    concluded = case.concluded
    schedule = case.schedule_in("UNKNOWN")
    next_check_at = schedule.due_at if schedule else None
    waiting_on = concluded.exit.waiting_on or "look"
    return Held(
        op_id=case.operation_id,
        verdict=telling.verdict_document(
            concluded.dossier,
            concluded.verdict,
            concluded.looks,
            exit_=concluded.exit,
            next_check_at=next_check_at,
        ),
        waiting_on=waiting_on,
        waiting_until=next_check_at if waiting_on != "person" else None,
    )
