"""Replays under one key (class R) as evidence: writes of the runtime, never of the reconciler.

What the runtime was told when it sent the same call again says something about the first send in
two cases only: a 2xx, whose object must then be read by id, and a definitive failure that the
provider had kept for this key and gives back (402, marked as replayed). Anything else, 401, 403,
409, 429 or a validation error, met the second send alone. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reconcilers.evidence import Look, Outcome, Sighting, Stage

#: The status under which a provider keeps a definitive failure of the call itself.
SAVED_FAILURE_STATUS: Final = 402

_NOTHING: Final = {
    None: "no answer came back",
    401: "the key was refused before the call was looked at",
    403: "the key was refused before the call was looked at",
    409: "another send under this key was in progress",
    429: "it was turned away by a limit",
}


@dataclass(frozen=True, kw_only=True)
class Try:
    """One attempt as far as replays go. `could_send_until` is None where nobody knows."""

    number: int
    standing: str
    sent_at: datetime | None
    ended_at: datetime | None
    could_send_until: datetime | None
    http_status: int | None
    replayed: bool
    provider_ref: str | None

    @property
    def is_doubtful(self) -> bool:
        """Whether what it did is the question."""
        return self.standing in {"live", "in_doubt"}


def looks_of(
    tries: Sequence[Try], *, marker: str, key_expires_at: datetime | None
) -> tuple[Look, ...]:
    """One look for every answered send that followed another one, oldest first."""
    sent = [one for one in tries if one.sent_at is not None]
    return tuple(
        _look(one, one.sent_at, one.ended_at, sent, marker, key_expires_at)
        for one in sent[1:]
        if one.sent_at is not None and one.ended_at is not None
    )


def _look(
    one: Try,
    began: datetime,
    ended: datetime,
    sent: Sequence[Try],
    marker: str,
    key_expires_at: datetime | None,
) -> Look:
    saved = (
        one.replayed
        and one.http_status == SAVED_FAILURE_STATUS
        and _all_in_one_life(sent, key_expires_at)
    )
    sightings: tuple[Sighting, ...] = ()
    if one.standing == "committed" and one.provider_ref:
        # Said by the runtime, not read by us: the object is read by its id before it counts.
        sightings = (
            Sighting(
                id=one.provider_ref,
                kind="",
                status="",
                stage=Stage.DONE,
                marker=marker,
                verified=False,
            ),
        )
    outcome = Outcome.EMPTY if saved else Outcome.HIT if sightings else Outcome.CANNOT_LOOK
    return Look(
        lookup="replay",
        lookup_class="R",
        outcome=outcome,
        started_at=began,
        ended_at=ended,
        endpoint=f"attempt {one.number}",
        reason=_why_nothing(one) if outcome is Outcome.CANNOT_LOOK else "",
        complete=outcome is not Outcome.CANNOT_LOOK,
        sightings=sightings,
        saved_failure=saved,
    )


def _all_in_one_life(sent: Sequence[Try], key_expires_at: datetime | None) -> bool:
    """Whether no doubtful send can have met the provider after it had forgotten the key."""
    return key_expires_at is not None and all(
        one.could_send_until is not None and one.could_send_until < key_expires_at
        for one in sent
        if one.is_doubtful
    )


def _why_nothing(one: Try) -> str:
    status = one.http_status
    said = _NOTHING.get(status, "the provider answered this send alone")
    return f"{status}, {said}" if status is not None else said
