"""Which way out of UNKNOWN a verdict opens (design: the domain, "Out of UNKNOWN"). Pure.

The services carry an exit out; the operations floor checks its own half again under the lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcilers.evidence import Facts, Look
from reconcilers.verdicts import HOLDING, Verdict

#: Inside key retention less a margin a replay under the same key is still deduplicated. The margin
#: is the one by which permits are refused: a 24th of the retention, an hour at most.
RETENTION_MARGIN: Final = timedelta(hours=1)
_MARGIN_SHARE: Final = 24


@dataclass(frozen=True, kw_only=True)
class Exit:
    """`move`: commit, settle_absent, release or hold. `reason`: the release's, or why it holds.

    `detail` is a sentence of the floor below, where that forbade what we had concluded.
    """

    move: str
    reason: str = ""
    waiting_on: str = ""
    incident: str = ""
    detail: str = ""


def way_out(facts: Facts, verdict: Verdict, looks: Sequence[Look], now: datetime) -> Exit:
    """What follows from the verdict in the operation's present state."""
    if facts.state == "UNKNOWN":
        return _out_of_unknown(facts, verdict, looks, now)
    if verdict.kind in {"conflict", "duplicate"}:
        return Exit(move="hold", reason=verdict.code, incident=_incident(verdict))
    if (
        facts.state == "INVOKED"
        and facts.tool_class == "idempotent"
        and inside_retention(facts, now)
    ):
        # What is seen may be the live attempt's own effect; its sender knows the result, and the
        # provider makes the two sends into one. Where it does not, committing stops the sender.
        return Exit(move="hold", reason="attempt_is_live")
    if verdict.kind in {"committed", "committed_late"} and facts.state != "COMMITTED":
        return Exit(move="commit")
    return Exit(move="hold", reason="counted")


def _out_of_unknown(facts: Facts, verdict: Verdict, looks: Sequence[Look], now: datetime) -> Exit:
    if verdict.kind in {"committed", "committed_late"}:
        return Exit(move="commit")
    if verdict.kind in {"conflict", "duplicate"}:
        return Exit(
            move="hold", reason=verdict.code, waiting_on="person", incident=_incident(verdict)
        )
    if facts.is_compensated and verdict.kind == "absent" and not facts.closed:
        return Exit(move="hold", reason="being_compensated", waiting_on="person")
    if facts.tool_class == "safe":
        # It only reads: there is no effect that could be doubled or lost.
        return Exit(move="settle_absent" if facts.closed else "release", reason="safe")
    if verdict.kind == "absent":
        return _after_absence(facts, verdict, now)
    if may_replay(facts, verdict, looks, now):
        return Exit(move="release", reason="replay")
    return Exit(
        move="hold", reason=verdict.code, waiting_on="person" if verdict.needs_person else "look"
    )


def _after_absence(facts: Facts, verdict: Verdict, now: datetime) -> Exit:
    proved_by = verdict.proof.lookup_class if verdict.proof else ""
    counts_as_unsafe = not (facts.tool_class == "idempotent" and inside_retention(facts, now))
    if counts_as_unsafe and not facts.fenced and proved_by != "T":
        return Exit(move="hold", reason="unfenced", waiting_on="person")
    if facts.closed:
        return Exit(move="settle_absent", reason="absent")
    limit = facts.signed_release_above
    if limit is not None and facts.amount_minor is not None and facts.amount_minor > limit:
        return Exit(move="hold", reason="signed_release_needed", waiting_on="person")
    return Exit(move="release", reason="absent")


def may_replay(facts: Facts, verdict: Verdict, looks: Sequence[Look], now: datetime) -> bool:
    """Whether the executor may send the same call again under the provider's own dedupe."""
    # A webhook is told, not looked at: what it tells of has yet to be read.
    looked = any(
        look.finished and not look.is_rumour and look.started_at >= facts.unknown_since
        for look in looks
    )
    return (
        looked
        and not facts.closed
        and not facts.is_compensated
        and facts.first_send_is_known
        and facts.tool_class == "idempotent"
        and inside_retention(facts, now)
        and verdict.kind not in HOLDING
    )


def inside_retention(facts: Facts, now: datetime) -> bool:
    """Whether the provider still remembers our key, with a margin; unknown retention is none."""
    if not facts.accepts_key or facts.key_expires_at is None or facts.key_retention is None:
        return False
    margin = min(facts.key_retention / _MARGIN_SHARE, RETENTION_MARGIN)
    return now < facts.key_expires_at - margin


def _incident(verdict: Verdict) -> str:
    return "duplicate_effect" if verdict.kind == "duplicate" else "effect_mismatch"
