"""What a person may sign about an UNKNOWN operation, and when it takes two. Rules only.

Release is refused before `t_emit + L`, and while what was seen speaks against it. From there to
the settle point S, or where S is unknown, it needs a second, blind person; so does a
settle-absent before S, and one against evidence of an effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from approvals.errors import Refused
from operations import states
from operations.catalogue import ToolFacts
from operations.documents import rfc3339
from operations.rows import LockedOperation

#: Verdicts under which something of ours exists at the provider.
AGAINST: Final = frozenset({"committed", "committed_late", "in_flight", "conflict", "duplicate"})
#: Reasons of a verdict that leave the settle point unknown: nothing can be looked up at all.
_NO_SETTLE_POINT: Final = frozenset({"nobody_to_ask", "no_lookup", "sender_unknown"})


@dataclass(frozen=True)
class Situation:
    """An UNKNOWN operation as the rules see it. `emits_until` is t_emit; None: not known.

    `lifetime` is L, `is_compensated`: a compensation of it is live.
    """

    op: LockedOperation
    facts: ToolFacts
    emits_until: datetime | None
    now: datetime
    lifetime: timedelta
    is_compensated: bool = False

    @property
    def verdict(self) -> dict[str, Any]:
        return self.op.verdict or {}

    @property
    def kind(self) -> str:
        return str(self.verdict.get("kind", ""))

    @property
    def quiet_from(self) -> datetime | None:
        """t_emit + L: no request of ours can still be running at the provider after it."""
        if self.emits_until is None:
            return None
        return self.emits_until + self.lifetime

    @property
    def settles_at(self) -> datetime | None:
        """S, where a look-up exists that gives it a meaning."""
        said = self.verdict.get("settles_at")
        if not said or self.verdict.get("code") in _NO_SETTLE_POINT or not self.facts.reconciler:
            return None
        return datetime.fromisoformat(said)

    @property
    def is_settled(self) -> bool:
        return self.settles_at is not None and self.now >= self.settles_at

    @property
    def cannot_be_looked_up(self) -> bool:
        """Class N: no reconciler, no marker, or nobody to ask."""
        return (
            not self.facts.reconciler
            or not self.facts.marker
            or self.verdict.get("code") in _NO_SETTLE_POINT
        )


def check_choice(situation: Situation, choice: str, provider_ref: str | None, reason: str) -> None:
    """Raise with what stands in the way of this choice; whether it takes two is another matter."""
    op = situation.op
    if op.state != states.UNKNOWN:
        raise Refused(
            "NOT_UNKNOWN", f"The operation is {op.state} now; there is nothing to settle."
        )
    if choice == "settle-committed":
        _check_committed(situation, provider_ref, reason)
    elif choice == "release":
        _check_release(situation)
    elif choice == "settle-absent":
        if not reason:
            raise Refused("VALIDATION_ERROR", "Say how you know that it did not happen.")
    elif choice == "compensate":
        if situation.is_compensated:
            raise Refused("NOT_READY", "A compensation of it is open; only one may be at a time.")
        if not reason:
            raise Refused("VALIDATION_ERROR", "Say why it is to be undone.", pointer="/reason")
    else:
        raise Refused("VALIDATION_ERROR", "There is no such choice.")


def _check_committed(situation: Situation, provider_ref: str | None, reason: str) -> None:
    if provider_ref:
        return
    if not situation.cannot_be_looked_up:
        raise Refused(
            "VALIDATION_ERROR",
            "Name the provider's object that shows it happened.",
            pointer="/provider_ref",
        )
    if not reason:
        raise Refused("VALIDATION_ERROR", "Say how you know that it happened.")


def check_fetched(fetched: Mapping[str, Any] | None, reason: str) -> None:
    """An object that is not there, or is another call's, needs words; a silence does not.

    Whoever could not be asked never keeps a person from signing: the statement says so instead.
    """
    if fetched is None or reason:
        return
    if fetched["outcome"] == "missing":
        problem = f"{fetched['provider']} has no {fetched['id']} in {fetched['account']}"
    elif fetched["outcome"] == "found" and fetched["marker"] == "other":
        problem = f"{fetched['id']} carries the key of another call"
    else:
        return
    raise Refused(
        "VALIDATION_ERROR",
        f"{problem}. Correct the id, or say how you know that it shows this call.",
        pointer="/provider_ref",
    )


def _check_release(situation: Situation) -> None:
    op = situation.op
    if situation.is_compensated:
        raise Refused("NOT_RELEASABLE", "A compensation was chosen for it.")
    if op.closed:
        raise Refused("NOT_RELEASABLE", "The intent is closed: it is settled, never sent again.")
    if situation.kind in AGAINST:
        raise Refused(
            "NOT_RELEASABLE",
            f"The evidence says {situation.kind}: sending again could do it twice.",
        )
    quiet_from = situation.quiet_from
    if quiet_from is None:
        raise Refused(
            "NOT_RELEASABLE", "Nobody knows when the last attempt sent, so it may still act."
        )
    if situation.now < quiet_from:
        raise Refused(
            "NOT_RELEASABLE",
            f"A request of ours may still be running at the provider until {rfc3339(quiet_from)}.",
        )


def needs_second(situation: Situation, choice: str) -> bool:
    """Whether one signature is not enough now."""
    if choice not in ("release", "settle-absent"):
        return False
    return not situation.is_settled or situation.kind in AGAINST
