"""What the findings of one operation prove together. Pure: no clock, no database, no network.

The order of the findings never matters, one verified hit beats any number of misses, and
nothing but classes A, B and T, or a failure that the provider saved under our key, can show
absence (design: reconciliation, "Verdicts").
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reconcilers import proofs
from reconcilers.evidence import Facts, Look, Outcome, Sighting, Stage

KINDS: Final = (
    "committed",
    "committed_late",
    "in_flight",
    "absent",
    "waiting",
    "conflict",
    "duplicate",
    "cannot_look",
    "needs_human",
)

#: Kinds under which nothing is ever executed again or signed away.
HOLDING: Final = frozenset({"committed", "committed_late", "in_flight", "conflict", "duplicate"})

#: More failed looks in a row than this, and a person hears of it; the looks go on.
FAILURES_BEFORE_A_PERSON: Final = 8

#: A key that expires sooner than this, unresolved, is a person's business.
KEY_EXPIRY_WARNING: Final = timedelta(hours=2)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`kind` is what is proved; `code` why; `escalate`, where set, why a person must come too."""

    kind: str
    code: str
    settles_at: datetime | None = None
    sightings: tuple[Sighting, ...] = ()
    differences: tuple[str, ...] = ()
    proof: proofs.Absence | None = None
    evidence: int = 0
    escalate: str = ""

    @property
    def needs_person(self) -> bool:
        """Whether nothing but a person can move the operation, or a person should know."""
        return self.kind in {"conflict", "duplicate", "needs_human"} or bool(self.escalate)

    @property
    def object_ids(self) -> tuple[str, ...]:
        """The provider's objects that the verdict rests on."""
        return tuple(sighting.id for sighting in self.sightings)


def judge(facts: Facts, looks: Sequence[Look], now: datetime) -> Verdict:
    """The verdict over everything that was ever seen for this operation."""
    verdict = _from_sightings(facts, looks) or _from_misses(facts, looks, now)
    if not verdict.needs_person:
        verdict = replace(verdict, escalate=_escalation(facts, verdict, now))
    return replace(verdict, evidence=sum(look.finished for look in looks))


# What was seen -----------------------------------------------------------------------------------


def _from_sightings(facts: Facts, looks: Sequence[Look]) -> Verdict | None:
    """A verdict that rests on objects which exist, or None where none of ours was verified."""
    strangers: list[Sighting] = []
    ours: dict[tuple[str, str], Sighting] = {}
    for sighting in _oldest_first(looks):
        if not sighting.verified:
            continue
        if sighting.marker == facts.marker or (
            sighting.marker is None and sighting.id in facts.reported_ids
        ):
            key = (sighting.kind, sighting.id)
            ours[key] = _merge(ours.get(key), sighting)
        elif sighting.id in facts.reported_ids:
            strangers.append(sighting)
    found = sorted(ours.values(), key=lambda seen: (seen.stage is not Stage.DONE, seen.id))
    if _is_double(facts, found):
        return Verdict(kind="duplicate", code="two_objects", sightings=tuple(found))
    if strangers and not found:
        return Verdict(
            kind="conflict",
            code="another_marker",
            sightings=tuple(strangers[-1:]),
            differences=("idempotency key",),
        )
    if not found:
        return None
    differences = tuple(sorted({word for seen in found for word in _differences(facts, seen)}))
    if differences:
        return Verdict(
            kind="conflict",
            code="other_content",
            sightings=tuple(found),
            differences=differences,
        )
    return _from_one_object(facts, found)


def _from_one_object(facts: Facts, found: list[Sighting]) -> Verdict:
    sightings, stage = tuple(found), found[0].stage
    if stage is Stage.DONE:
        late = facts.state in {"PENDING", "FAILED"}
        return Verdict(
            kind="committed_late" if late else "committed", code="found", sightings=sightings
        )
    if stage is Stage.IN_FLIGHT:
        return Verdict(kind="in_flight", code="effect_pending", sightings=sightings)
    # The call was carried out and its effect was then refused or undone. Whether that is
    # "happened" is for the runtime's own replay (the provider's saved answer) or a person.
    return Verdict(kind="needs_human", code="effect_not_reached", sightings=sightings)


def _oldest_first(looks: Sequence[Look]) -> Iterable[Sighting]:
    hits = (look for look in looks if look.outcome in {Outcome.HIT, Outcome.PENDING})
    ordered = sorted(hits, key=lambda look: (look.ended_at, look.started_at, look.lookup))
    return (sighting for look in ordered for sighting in sorted(look.sightings, key=repr))


def _merge(older: Sighting | None, newer: Sighting) -> Sighting:
    """The newest read of one object, except that an effect once reached stays reached."""
    if older is not None and older.stage is Stage.DONE:
        return replace(newer, stage=Stage.DONE)
    return newer


def _is_double(facts: Facts, found: Sequence[Sighting]) -> bool:
    kinds = [sighting.kind for sighting in found]
    if any(kinds.count(kind) > 1 for kind in kinds):
        return True
    # The runtime reported one object and another one of the same kind carries its key.
    if facts.state != "COMMITTED" or not facts.provider_ref_kind:
        return False
    ids = {sighting.id for sighting in found if sighting.kind == facts.provider_ref_kind}
    return bool(ids) and facts.provider_ref not in ids


def _differences(facts: Facts, seen: Sighting) -> Iterable[str]:
    if None not in (facts.amount_minor, seen.amount_minor) and (
        facts.amount_minor != seen.amount_minor
    ):
        yield "amount"
    if facts.currency and seen.currency and facts.currency.upper() != seen.currency.upper():
        yield "currency"
    if seen.mode and seen.mode != facts.environment:
        yield "mode"
    if facts.fingerprint and seen.fingerprint and facts.fingerprint != seen.fingerprint:
        yield "arguments"


# What was not seen -------------------------------------------------------------------------------


def _from_misses(facts: Facts, looks: Sequence[Look], now: datetime) -> Verdict:
    settles_at = facts.settles_at()
    if facts.state == "COMMITTED":
        return Verdict(kind="committed", code="as_reported")
    proof = proofs.absence(facts, looks)
    if proof is not None:
        return Verdict(kind="absent", code="proved", settles_at=proof.settles_at, proof=proof)
    if facts.blind:
        return Verdict(kind="needs_human", code="nobody_to_ask", settles_at=settles_at)
    if not any(way.lookup_class != "N" for way in facts.ways):
        return Verdict(kind="needs_human", code="no_lookup", settles_at=settles_at)
    if now >= facts.deadline_at:
        return Verdict(kind="needs_human", code="deadline", settles_at=settles_at)
    # A replay is the runtime's own send, and a webhook the provider's: neither is a look of ours
    # that failed, or one that was made.
    ours = (look for look in looks if look.lookup_class != "R" and not _is_told(look))
    last = max(ours, key=lambda look: (look.ended_at, look.finished), default=None)
    if last is not None and not last.finished:
        return Verdict(kind="cannot_look", code="last_look_failed", settles_at=settles_at)
    if not any(way.may_prove_absence for way in facts.ways):
        return _without_proof(facts, settles_at, now)
    windowed = last is not None and last.covers_from is not None
    if windowed and not facts.first_send_is_known and settles_at is not None and now >= settles_at:
        return Verdict(kind="needs_human", code="first_send_unknown", settles_at=settles_at)
    if last is None:
        code = "not_looked_yet"
    elif settles_at is None:
        code = "sender_unknown"
    else:
        code = "before_settle_point" if now < settles_at else _what_is_missing(facts, looks)
    return Verdict(kind="waiting", code=code, settles_at=settles_at)


def _what_is_missing(facts: Facts, looks: Sequence[Look]) -> str:
    """After the settle point: a second read, or a reason why the reads so far count for nothing."""
    late = [look for look in looks if proofs.came_late_enough(facts, look)]
    counted = any(proofs.counts_towards_absence(facts, look) for look in late)
    return "one_more_read" if counted or not late else "empty_not_counted"


def _is_told(look: Look) -> bool:
    return look.finished and look.is_rumour


def _without_proof(facts: Facts, settles_at: datetime | None, now: datetime) -> Verdict:
    """Only look-ups of class C or E: a hit would settle it, a miss never does."""
    slowest = max((way.lag for way in facts.ways), default=timedelta(0))
    settled = settles_at is not None and now >= settles_at + slowest
    if facts.moves_money and settled:
        return Verdict(kind="needs_human", code="cannot_be_proved", settles_at=settles_at)
    return Verdict(kind="waiting", code="cannot_prove_absence", settles_at=settles_at)


def _escalation(facts: Facts, verdict: Verdict, now: datetime) -> str:
    if facts.state != "UNKNOWN" or verdict.kind in {"committed", "absent"}:
        return ""
    if verdict.kind == "cannot_look" and facts.failures > FAILURES_BEFORE_A_PERSON:
        return "cannot_look_repeatedly"
    if now >= facts.deadline_at:
        return "deadline"
    expires = facts.key_expires_at
    if facts.accepts_key and expires is not None and now >= expires - KEY_EXPIRY_WARNING:
        return "key_expires_soon"
    return ""
