"""The words of a look: what was asked, what was seen, and what such a look can prove.

Plain values without Django: providers make them, the verdict reads them, `models.Finding` keeps
them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

#: Classes whose `empty` may take part in a proof of absence (design: reconciliation, "Classes").
#: A replay (R) is not among them: it proves absence by one answer only, `Look.saved_failure`.
PROVES_ABSENCE: Final = frozenset({"A", "B", "T"})

#: Seconds of a provider's clock that may differ from ours where a window's start is computed.
CLOCK_SLACK: Final = timedelta(minutes=10)


class Stage(StrEnum):
    """How far the effect of an object that exists has come: the second axis beside existence."""

    DONE = "done"
    IN_FLIGHT = "in_flight"
    NOT_REACHED = "not_reached"


class Outcome(StrEnum):
    """What one look gave. `cannot_look` is never a kind of `empty`."""

    HIT = "hit"
    EMPTY = "empty"
    PENDING = "pending"
    CANNOT_LOOK = "cannot_look"


@dataclass(frozen=True, kw_only=True)
class Way:
    """One look-up that a provider offers, and what it can prove.

    `exhaustive`: the read meets any object of the intent, whatever its id (a GET by an id that
    somebody reported is exact, and says nothing about other objects). `lag` is the documented
    bound on how far the read is behind the writes. `opt_in`: only for tools that name it.
    """

    name: str
    lookup_class: str
    words: str
    exhaustive: bool = False
    lag: timedelta = timedelta(0)
    opt_in: bool = False

    @property
    def may_prove_absence(self) -> bool:
        """Whether an `empty` of this look-up can ever count."""
        return self.exhaustive and self.lookup_class in PROVES_ABSENCE


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One object at the provider, as one read showed it.

    `marker` is the text in the field that holds our idempotency key, None where the field is
    missing. `verified` says that the object itself was read: by id, or in a list that is never
    behind. Amounts are the provider's integers in minor units, currencies upper case.
    """

    id: str
    kind: str
    status: str
    stage: Stage
    marker: str | None
    verified: bool
    amount_minor: int | None = None
    currency: str | None = None
    fingerprint: str | None = None
    mode: str = ""
    detail: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one look showed for one operation. Times are the database's clock as far as known.

    An event (E) or a search (C) names objects: a sighting of theirs is `verified` once the object
    was read by its id. A tombstone (T) is `empty` where it was accepted; where it was refused the
    original is there, and is a hit once read. `saved_failure` belongs to replays (R), which only
    the runtime makes: the provider gave back the definitive failure that it had kept for our key.
    """

    lookup: str
    lookup_class: str
    outcome: Outcome
    started_at: datetime
    ended_at: datetime
    endpoint: str = ""
    reason: str = ""
    retry_after_seconds: float | None = None
    permanent: bool = False
    account_seen: str = ""
    mode: str = ""
    pages: int = 0
    rows: int = 0
    complete: bool = False
    exhaustive: bool = False
    covers_from: datetime | None = None
    control_passed: bool = False
    request_id: str = ""
    sightings: tuple[Sighting, ...] = ()
    answer: bytes | None = None
    saved_failure: bool = False

    @property
    def finished(self) -> bool:
        """Whether it looked at all."""
        return self.outcome is not Outcome.CANNOT_LOOK

    @property
    def is_rumour(self) -> bool:
        """Whether it only tells of objects, none of which anybody has read: a webhook does."""
        return bool(self.sightings) and not any(seen.verified for seen in self.sightings)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the verdict needs to know about one operation, its attempts and its tool.

    `emits_until` is t_emit, `lifetime` is L; `reported_ids` are object ids that the runtime
    reported or an earlier look met; `provider_ref_kind` is the kind that the reported reference
    names by its form, empty where no form says it. `blind` says why there is nobody to ask, else
    it is empty.
    `is_compensated`: somebody chose to undo it, which forbids running it again.
    """

    state: str
    tool_class: str
    marker: str
    environment: str
    first_send_at: datetime
    unknown_since: datetime
    emits_until: datetime | None
    lifetime: timedelta
    deadline_at: datetime
    ways: tuple[Way, ...] = ()
    blind: str = ""
    provider_title: str = ""
    account: str = ""
    amount_minor: int | None = None
    currency: str | None = None
    fingerprint: str | None = None
    provider_ref: str | None = None
    provider_ref_kind: str = ""
    reported_ids: frozenset[str] = frozenset()
    closed: bool = False
    fenced: bool = False
    possible_sends: int = 1
    accepts_key: bool = False
    key_expires_at: datetime | None = None
    key_retention: timedelta | None = None
    first_send_is_known: bool = True
    is_compensated: bool = False
    client_timeout_seconds: int = 80
    signed_release_above: int | None = None
    failures: int = 0

    @property
    def moves_money(self) -> bool:
        """Whether an amount is known for this call."""
        return self.amount_minor is not None

    def settles_at(self, lag: timedelta = timedelta(0)) -> datetime | None:
        """The settle point S = t_emit + L + I; None while nobody knows when the sender stops."""
        return None if self.emits_until is None else self.emits_until + self.lifetime + lag
