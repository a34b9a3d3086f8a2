"""What became of an effect after it was COMMITTED: an axis of its own, never a step back.

A refund that had succeeded fails, a payout comes back (design: the domain, `effect_status`). The
status is noted with its event; a failure that nobody asked for is also an incident.
"""

from collections.abc import Sequence
from typing import Any, Final

from operations import incidents, rows, settling
from operations.actors import RECONCILER
from reconcilers import telling
from reconcilers.dossiers import Dossier
from reconcilers.evidence import Look, Sighting

#: The one word for an effect that its provider undid by itself; `canceled` is somebody's wish.
_FAILED: Final = "failed"


def note_later_facts(cur: Any, dossier: Dossier, looks: Sequence[Look]) -> None:
    """Note the newest status of the object that a COMMITTED operation rests on, where it moved."""
    seen = _newest(dossier.facts.provider_ref, looks)
    if seen is None or not seen.status:
        return
    op_id = dossier.operation_id
    settling.settle_committed(
        cur, op_id, actor=RECONCILER, provider_ref=seen.id, effect_status=seen.status
    )
    op = rows.lock(cur, op_id=op_id)
    if seen.status != _FAILED or op is None:
        return
    incidents.open_incident(
        cur,
        "effect_mismatch",
        cause=f"{op.id}:{seen.id}:{seen.status}",
        actor=RECONCILER,
        op=op,
        details={
            "found_by": "reconciler",
            "objects": telling.objects([seen]),
            "differences": ["effect"],
            "says": seen.detail,
        },
    )


def _newest(provider_ref: str | None, looks: Sequence[Look]) -> Sighting | None:
    found = [
        (look.ended_at, seen)
        for look in looks
        for seen in look.sightings
        if seen.verified and seen.id == provider_ref
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None
