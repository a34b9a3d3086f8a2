"""Report mode as a set: the state and the incidents that a set of records amounts to. Pure.

Nothing here knows in which order the records came, so no order can matter.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from operations import states

COMMITTED: Final = "committed"
IN_DOUBT: Final = "unknown"
NO_EFFECT: Final = "failed"
STARTED: Final = "invoked"
_RANK: Final = {None: 0, STARTED: 1, NO_EFFECT: 2, IN_DOUBT: 3, COMMITTED: 4}
_SENDS: Final = frozenset({"TOOL_INVOKED", "TOOL_SENDING", "TOOL_UNKNOWN"})


class Fact(NamedTuple):
    """What one record says about its operation. An empty `attempt_id` is an attempt of its own."""

    type: str
    attempt_id: str = ""
    effect: str | None = None
    permanent: bool = False
    replayed: bool = False
    provider_ref: str | None = None
    result_sha256: bytes | None = None

    @property
    def kind(self) -> str | None:
        """committed, unknown, failed or invoked; None where nothing was tried.

        `TOOL_FAILED` without `effect: none` proves nothing; a replayed answer tried nothing,
        but what was committed once stays committed.
        """
        if self.type == "TOOL_COMMITTED":
            return COMMITTED
        if self.replayed:
            return None
        if self.type == "TOOL_FAILED":
            return NO_EFFECT if self.effect == "none" else IN_DOUBT
        if self.type == "TOOL_UNKNOWN":
            return IN_DOUBT
        return STARTED if self.type in _SENDS else None

    @property
    def is_send(self) -> bool:
        """Whether bytes may have left, by this record alone."""
        return self.kind == IN_DOUBT or (self.type in _SENDS and not self.replayed)


@dataclass(slots=True)
class AttemptFold:
    """One attempt, as its records together tell it."""

    kind: str | None = None
    permanent: bool = False
    had_effect: bool = False
    sent: bool = False
    provider_ref: str | None = None
    result_sha256: bytes | None = None

    def add(self, fact: Fact) -> None:
        kind = fact.kind
        if _RANK[kind] > _RANK[self.kind]:
            self.kind = kind
        self.permanent = self.permanent or (kind == NO_EFFECT and fact.permanent)
        self.sent = self.sent or fact.is_send
        if kind == COMMITTED:
            self.had_effect = self.had_effect or not fact.replayed
            self.provider_ref = self.provider_ref or fact.provider_ref
            self.result_sha256 = self.result_sha256 or fact.result_sha256


@dataclass(frozen=True, slots=True)
class Fold:
    """State, failure and incident kinds; `attempts` by id, without what tried nothing."""

    state: str
    failure: str | None
    attempts: Mapping[str, AttemptFold]
    incidents: frozenset[str] = field(default_factory=frozenset)


def fold(
    facts: Iterable[Fact], *, dedupes: bool = False, harmless: bool = False, closed: bool = False
) -> Fold:
    """What a set of records amounts to.

    `dedupes`: the provider makes two sends under one key into one effect. `harmless`: the tool
    only reads. `closed`: the intent is no longer wanted, so what could be tried again is over.
    """
    facts = list(facts)
    attempts = attempts_of(facts)
    kinds = {attempt.kind for attempt in attempts.values()}
    permanent = any(attempt.permanent for attempt in attempts.values())
    incidents = set()
    if permanent:
        incidents.add("permanent_failure")
    if not harmless:
        incidents |= effect_incidents(facts, attempts, dedupes=dedupes)
    if COMMITTED in kinds:
        return Fold(states.COMMITTED, None, attempts, frozenset(incidents))
    state, failure = _uncommitted(kinds, permanent, closed)
    return Fold(state, failure, attempts, frozenset(incidents))


def attempts_of(facts: Iterable[Fact]) -> dict[str, AttemptFold]:
    """The attempts that a set of records tells of."""
    found: defaultdict[str, AttemptFold] = defaultdict(AttemptFold)
    for fact in facts:
        if fact.kind is not None:
            found[fact.attempt_id].add(fact)
    return dict(found)


def effect_incidents(
    facts: Iterable[Fact], attempts: Mapping[str, AttemptFold], *, dedupes: bool
) -> set[str]:
    """Which broken promises about effects a set of records shows."""
    committed = [fact for fact in facts if fact.kind == COMMITTED]
    if not committed or (len(committed) == len(attempts) == 1):
        return set()
    positives = sum(attempt.had_effect for attempt in attempts.values())
    results: defaultdict[str, set[bytes]] = defaultdict(set)
    refs = set()
    for fact in committed:
        if fact.provider_ref:
            refs.add(fact.provider_ref)
        if fact.result_sha256:
            results[fact.provider_ref or f"\0{fact.attempt_id}"].add(fact.result_sha256)
    found = set()
    if len(refs) > 1 or (positives > 1 and not dedupes):
        found.add("duplicate_effect")
    if any(len(digests) > 1 for digests in results.values()):
        found.add("effect_mismatch")
    if positives and not dedupes and any(is_doubtful(attempt) for attempt in attempts.values()):
        found.add("possible_duplicate")
    return found


def is_doubtful(attempt: AttemptFold) -> bool:
    """Whether the attempt may have had its effect unseen."""
    return attempt.kind in (IN_DOUBT, STARTED)


def _uncommitted(kinds: set[str | None], permanent: bool, closed: bool) -> tuple[str, str | None]:
    if IN_DOUBT in kinds or {NO_EFFECT, STARTED} <= kinds:
        return states.UNKNOWN, None
    if STARTED in kinds:
        return states.INVOKED, None
    if permanent:
        return states.FAILED, "provider_declined"
    # Of a call that nobody is known to have tried, the end of its run says nothing.
    return (states.FAILED, "cancelled") if closed and kinds else (states.PENDING, None)
