"""When empty reads prove absence. Pure; the numbers come from the reconciliation page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from reconcilers.evidence import PROVES_ABSENCE, Facts, Look, Outcome

#: Two agreeing reads start this far apart; the schedule aims below thirty seconds.
READS_APART: Final = timedelta(seconds=5)


@dataclass(frozen=True)
class Absence:
    """A proof: its class, the reads it rests on, and the settle point that they started after."""

    lookup_class: str
    reads: tuple[Look, ...]
    settles_at: datetime | None


def counts_towards_absence(facts: Facts, look: Look) -> bool:
    """Whether this one `empty` may take part in a proof: every condition, none by default."""
    if look.lookup_class == "R":
        # The provider kept its refusal of the first send and gives it back for our key.
        return look.outcome is Outcome.EMPTY and look.saved_failure and look.complete
    if look.outcome is not Outcome.EMPTY or look.lookup_class not in PROVES_ABSENCE:
        return False
    if not (look.exhaustive and look.complete and look.control_passed):
        return False
    if not _is_of_this_account(facts, look):
        return False
    if look.lookup_class == "T":
        # The unique key is ours now: the original can never land, whatever its timing.
        return True
    if look.lookup_class == "B" and look.covers_from is None:
        return False
    if look.covers_from is not None and (
        # Of a send that only records told of, nobody knows the first instant.
        not facts.first_send_is_known or look.covers_from > facts.first_send_at
    ):
        return False
    return _is_settled(facts, look)


def came_late_enough(facts: Facts, look: Look) -> bool:
    """Whether this is an empty answer of a look-up that proves absence, and of its time."""
    return (
        look.outcome is Outcome.EMPTY
        and look.lookup_class in PROVES_ABSENCE
        and look.exhaustive
        and _is_settled(facts, look)
    )


def _is_settled(facts: Facts, look: Look) -> bool:
    settled = facts.settles_at(_lag(facts, look))
    return settled is not None and look.started_at >= settled


def absence(facts: Facts, looks: Sequence[Look]) -> Absence | None:
    """The proof that the effect never happened, or None. Verified hits are the caller's business.

    A hit that could not be read again is no hit, but no silence either: only reads that started
    after it count.
    """
    doubtful = max(
        (
            look.ended_at
            for look in looks
            for seen in look.sightings
            if seen.marker == facts.marker and not seen.verified
        ),
        default=None,
    )
    counting = sorted(
        (
            look
            for look in looks
            if counts_towards_absence(facts, look)
            and (doubtful is None or look.started_at > doubtful)
        ),
        key=lambda look: look.started_at,
    )
    for look in counting:
        if look.lookup_class in {"T", "R"}:
            return Absence(look.lookup_class, (look,), None)
    # Reads are compared with their neighbours: of many close together, the first and the last
    # are far enough apart as soon as their span is.
    if len(counting) >= 2 and counting[-1].started_at - counting[0].started_at >= READS_APART:
        pair = _closest_pair(counting)
        return Absence(pair[1].lookup_class, pair, facts.settles_at(_lag(facts, pair[1])))
    return None


def _closest_pair(counting: Sequence[Look]) -> tuple[Look, Look]:
    """Two reads far enough apart: neighbours where possible, else the first and the last."""
    for earlier, later in pairwise(counting):
        if later.started_at - earlier.started_at >= READS_APART:
            return earlier, later
    return counting[0], counting[-1]


def _is_of_this_account(facts: Facts, look: Look) -> bool:
    """An account may be mended after it was asked: what another one did not show says nothing."""
    if look.mode and look.mode != facts.environment:
        return False
    seen, ours = look.account_seen.casefold(), facts.account.casefold()
    return not seen or not ours or seen == ours


def _lag(facts: Facts, look: Look) -> timedelta:
    for way in facts.ways:
        if way.name == look.lookup:
            return way.lag
    return timedelta(0)
