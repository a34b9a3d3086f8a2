"""What one look that was made by hand shows, and what such a look could prove."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.presentation import amounts
from console.presentation.amounts import Amount
from console.presentation.words import Headline
from reconcilers.evidence import PROVES_ABSENCE, Look, Outcome, Sighting, Stage

_HEADLINES: Final = {
    Outcome.HIT: Headline("committed", "Found", "circle-check"),
    Outcome.PENDING: Headline("running", "Found, still open", "loader-circle"),
    Outcome.EMPTY: Headline("flat-plain", "Nothing found", "circle-dashed"),
    Outcome.CANNOT_LOOK: Headline("stalled", "Could not look", "unplug"),
}
_STAGES: Final = {
    Stage.DONE: "its effect is reached",
    Stage.IN_FLIGHT: "its effect is still open",
    Stage.NOT_REACHED: "its effect was not reached",
}


@dataclass(frozen=True, kw_only=True)
class TriedLook:
    """One look as the page shows it."""

    look: Look
    headline: Headline
    proves: str
    objects: tuple[tuple[Sighting, Amount | None, str], ...]
    took_ms: int

    @property
    def started_at(self) -> datetime:
        return self.look.started_at


def told(looks: Sequence[Look]) -> list[TriedLook]:
    """Every look, oldest first."""
    return [
        TriedLook(
            look=look,
            headline=_HEADLINES[look.outcome],
            proves=proves(look),
            objects=tuple((seen, _amount(seen), _STAGES[seen.stage]) for seen in look.sightings),
            took_ms=round((look.ended_at - look.started_at).total_seconds() * 1000),
        )
        for look in looks
    ]


def _amount(seen: Sighting) -> Amount | None:
    if seen.amount_minor is None:
        return None
    return amounts.amount(seen.amount_minor, seen.currency)


def proves(look: Look) -> str:
    """What the engine could conclude from this look."""
    if look.outcome is Outcome.CANNOT_LOOK:
        if look.permanent:
            return (
                "Says nothing about the call. It stays like this until somebody changes something."
            )
        return "Says nothing about the call. The engine would ask again."
    if look.outcome in {Outcome.HIT, Outcome.PENDING}:
        return _of_a_hit(look)
    if look.lookup_class not in PROVES_ABSENCE:
        return f"An empty answer of class {look.lookup_class} never proves absence."
    if not look.exhaustive:
        return "Says that this object is not there, and nothing about others."
    if not look.control_passed:
        return (
            "Proves nothing yet: there was no positive control. The account's identity is not"
            " known, and no earlier object of ours was there to be seen."
        )
    if not look.complete:
        return "Proves nothing: not everything was read."
    return "After the settle point, two such answers prove absence."


def _of_a_hit(look: Look) -> str:
    verified = [seen for seen in look.sightings if seen.verified]
    if not verified:
        return "Proves nothing yet: the object itself could not be read."
    if len(verified) > 1:
        return "Two objects with one key: a duplicate, which only a person resolves."
    if verified[0].stage is Stage.IN_FLIGHT:
        return "The object is there. The call is never made again; its effect is waited for."
    if verified[0].stage is Stage.NOT_REACHED:
        return "The call was carried out and its effect was not reached: a person decides."
    return "Settles the call as happened, if amount, currency and account agree."
