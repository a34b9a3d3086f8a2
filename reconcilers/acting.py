"""Carrying out one conclusion: commit, release, settle or hold, and the incident it calls for.

Under the lock of the operation's row, in the caller's transaction. The plain ones among many are
carried out together by `acting_many`.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from operations import incidents, rows, settling
from operations.actors import RECONCILER
from operations.errors import DomainError
from reconcilers import telling
from reconcilers.dossiers import Dossier
from reconcilers.evidence import Look
from reconcilers.exits import Exit
from reconcilers.queue import Schedule
from reconcilers.verdicts import Verdict


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What would follow, or did: shown by a dry run, carried out otherwise."""

    dossier: Dossier
    verdict: Verdict
    exit: Exit
    looks: tuple[Look, ...]


def act(cur: Any, concluded: Conclusion) -> tuple[Conclusion, str]:
    """Commit, release or settle; what was concluded in the end, and the state afterwards.

    Whoever holds an operation afterwards calls `hold`, once it is known when the next look is.
    """
    try:
        with _revocable(concluded.exit):
            return concluded, _act(cur, concluded)
    except DomainError as refused:
        # The floor below knows something that forbids this exit; a person decides then.
        refusal = for_a_person(concluded, refused.code.lower(), detail=refused.detail)
        return refusal, concluded.dossier.facts.state


def _revocable(exit_: Exit) -> AbstractContextManager[object]:
    """A savepoint where the floor below may refuse; a commit it never refuses."""
    return transaction.atomic() if exit_.move in {"release", "settle_absent"} else nullcontext()


def _act(cur: Any, concluded: Conclusion) -> str:
    """Commit, release or settle; the state afterwards."""
    dossier, verdict, exit_ = concluded.dossier, concluded.verdict, concluded.exit
    if exit_.move == "hold":
        return dossier.facts.state
    told = telling.evidence(dossier, verdict, concluded.looks)
    op_id = dossier.operation_id
    if verdict.kind != dossier.verdict_kind and exit_.reason != "safe":
        # The verdict stands on the operation before what follows from it: a release is judged by
        # it, and it is what pages show afterwards.
        settling.set_verdict(
            cur,
            op_id,
            telling.verdict_document(
                dossier, verdict, concluded.looks, exit_=exit_, next_check_at=None
            ),
            actor=RECONCILER,
        )
    if exit_.move == "commit":
        seen = verdict.sightings[0]
        settling.settle_committed(
            cur,
            op_id,
            actor=RECONCILER,
            provider_ref=seen.id,
            effect_status=seen.status or None,
            evidence=told,
            late=verdict.kind == "committed_late",
        )
        return "COMMITTED"
    if exit_.move == "settle_absent":
        settling.settle_absent(cur, op_id, actor=RECONCILER, evidence=told)
        return "FAILED"
    settling.release(cur, op_id, reason=exit_.reason, actor=RECONCILER, evidence=told)
    return "PENDING"


def hold(cur: Any, concluded: Conclusion, schedule: Schedule | None) -> None:
    """It stays UNKNOWN: say why, until when, and whom it waits for."""
    next_check_at = schedule.due_at if schedule else None
    document = telling.verdict_document(
        concluded.dossier,
        concluded.verdict,
        concluded.looks,
        exit_=concluded.exit,
        next_check_at=next_check_at,
    )
    settling.set_verdict(
        cur,
        concluded.dossier.operation_id,
        document,
        actor=RECONCILER,
        waiting_on=concluded.exit.waiting_on or "look",
        waiting_until=next_check_at if concluded.exit.waiting_on != "person" else None,
    )
    if concluded.exit.incident:
        open_incident(cur, concluded)


def open_incident(cur: Any, concluded: Conclusion) -> None:
    """Once per operation and set of objects; a person sees every id and what could be done."""
    op = rows.lock(cur, op_id=concluded.dossier.operation_id)
    if op is None:
        return
    # Named as a report of the same second object would name it, so that both are one incident.
    others = sorted(set(concluded.verdict.object_ids) - {op.provider_ref})
    incidents.open_incident(
        cur,
        concluded.exit.incident,
        cause=f"{op.id}:{','.join(others)}",
        actor=RECONCILER,
        op=op,
        details={
            "found_by": "reconciler",
            "objects": telling.objects(concluded.verdict.sightings),
            "differences": list(concluded.verdict.differences),
            "asked_for": {"amount_minor": op.amount_minor, "currency": op.currency},
            "proposal": "compensation",
        },
    )


def for_a_person(concluded: Conclusion, reason: str, *, detail: str = "") -> Conclusion:
    """Nothing is done automatically; `reason` stands in the verdict."""
    return replace(
        concluded,
        verdict=replace(concluded.verdict, kind="needs_human", code=reason, escalate=""),
        exit=Exit(move="hold", reason=reason, waiting_on="person", detail=detail),
    )
