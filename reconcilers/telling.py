"""What a conclusion leaves on the operation: the verdict's document, and the evidence behind it.

Ids, words and times only; the raw answers stay with the findings, where they can be erased.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from operations.documents import rfc3339
from reconcilers import sentences
from reconcilers.dossiers import Dossier
from reconcilers.evidence import Look, Sighting
from reconcilers.exits import Exit
from reconcilers.verdicts import Verdict

#: The newest looks that an event's evidence names; all of them stand in the findings.
_LOOKS_NAMED: Final = 6


def verdict_document(
    dossier: Dossier,
    verdict: Verdict,
    looks: Sequence[Look],
    *,
    exit_: Exit,
    next_check_at: datetime | None,
) -> dict[str, Any]:
    """`Operation.verdict`, as the API and the pages show it."""
    return {
        "kind": verdict.kind,
        "code": exit_.reason or verdict.code,
        "settles_at": rfc3339(verdict.settles_at) if verdict.settles_at else None,
        "next_check_at": rfc3339(next_check_at) if next_check_at else None,
        # L, for whoever judges a signed release: the floor below knows only the catalogue's.
        "lifetime_seconds": int(dossier.facts.lifetime.total_seconds()),
        "evidence": verdict.evidence,
        "objects": list(verdict.object_ids),
        "escalated": verdict.escalate or None,
        "sentence": sentences.say(
            dossier.facts, verdict, looks, exit_=exit_, next_check_at=next_check_at
        ),
    }


def evidence(dossier: Dossier, verdict: Verdict, looks: Sequence[Look]) -> dict[str, Any]:
    """What a transition rests on: the verdict, the objects, and the newest looks."""
    newest = sorted(looks, key=lambda look: look.ended_at)[-_LOOKS_NAMED:]
    proof = verdict.proof
    return {
        "verdict": verdict.kind,
        "sentence": sentences.say(dossier.facts, verdict, looks),
        "provider": dossier.account.kind if dossier.account else None,
        "account": dossier.account.name if dossier.account else None,
        "proved_by_class": proof.lookup_class if proof else None,
        "settles_at": rfc3339(verdict.settles_at) if verdict.settles_at else None,
        "objects": objects(verdict.sightings),
        "looks": [_named(look) for look in newest],
    }


def objects(sightings: Sequence[Sighting]) -> list[dict[str, Any]]:
    """The provider's objects as an incident or an event names them."""
    return [
        {
            "id": seen.id,
            "kind": seen.kind,
            "status": seen.status,
            "amount_minor": seen.amount_minor,
            "currency": seen.currency,
        }
        for seen in sightings
    ]


def _named(look: Look) -> dict[str, Any]:
    return {
        "lookup": look.lookup,
        "class": look.lookup_class,
        "outcome": look.outcome.value,
        "started_at": rfc3339(look.started_at),
        "request_id": look.request_id,
    }
