"""What goes wrong with which request: rules, and a seeded schedule for whatever no rule matches."""

import fnmatch
import hashlib
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Fault:
    """What is to go wrong with one request; the defaults are "nothing"."""

    #: Added before anything else happens.
    latency_ms: float = 0
    #: Answer this status (429, 401, 403, 503…) in front of the idempotency layer.
    status: int | None = None
    retry_after: float | None = None
    code: str | None = None
    #: 409 `idempotency_key_in_use`, whatever is really in progress.
    key_in_use: bool = False
    #: Forget the key first, as after its retention.
    prune_key: bool = False
    #: Close the socket: `before` anything was executed, or `after` the commit.
    drop: str | None = None
    #: Hold the answer back for so long *after* the commit: the client times out after success.
    hold_seconds: float = 0
    #: Commit only after so long, whether or not anybody still listens (late arrival).
    commit_after_seconds: float | None = None
    #: Save a 500; its effect happens `none`, `now` (in the same commit) or `later`.
    error_500: str | None = None
    later_seconds: float = 30
    #: The payment stays `processing` for so long (null: for ever), then becomes `then`.
    processing_seconds: float | None = None
    processing: bool = False
    then: str = "succeeded"
    #: Decline with this code (402, saved).
    decline: str | None = None
    #: A refund or payout that succeeds now and fails after so long.
    fails_later_seconds: float | None = None
    #: What this request makes appears in search only after so long.
    search_lag_seconds: float | None = None
    #: This search finds nothing, whatever there is.
    search_empty: bool = False
    #: Lists give at most so many items a page.
    page_size: int | None = None
    #: Webhooks of this request: `twice`, `reversed`, `wrong_mode`, `wrong_account`, `altered`
    #: (after signing), `forged` (another secret), `stale` (signed an hour ago), `lost`; seconds.
    webhooks: str | None = None
    webhook_delay_seconds: float = 0

    @classmethod
    def parse(cls, document: dict[str, Any]) -> "Fault":
        unknown = set(document) - {item.name for item in fields(cls)}
        if unknown:
            raise ValueError(f"unknown fault: {', '.join(sorted(unknown))}")
        return cls(**document)

    def document(self) -> dict[str, Any]:
        return asdict(self)


#: Names that a schedule may use, so that a seed file reads as a story.
PRESETS: dict[str, dict[str, Any]] = {
    "slow": {"latency_ms": 400},
    "lost_response": {"drop": "after"},
    "never_arrived": {"drop": "before"},
    "late_commit": {"commit_after_seconds": 20, "drop": "before"},
    "saved_500": {"error_500": "none"},
    "rolled_forward": {"error_500": "later", "later_seconds": 20},
    "rate_limited": {"status": 429, "retry_after": 1},
    "key_in_use": {"key_in_use": True},
    "processing": {"processing": True, "processing_seconds": 30},
    "declined": {"decline": "card_declined"},
}


@dataclass(frozen=True)
class Arrival:
    """What rules may look at."""

    method: str
    path: str
    idem_key: str | None
    params: dict[str, Any]
    text: str


@dataclass
class Rule:
    """`action` for what matches: all of it, the `nth` matches only, at most `times`."""

    id: int
    match: dict[str, Any]
    action: dict[str, Any]
    nth: list[int] | None = None
    times: int | None = None
    seen: int = 0
    fired: int = 0

    @classmethod
    def parse(cls, identifier: int, document: dict[str, Any]) -> "Rule":
        known = {"match", "action", "nth", "times", "seen", "fired", "id"}
        if unknown := set(document) - known:
            raise ValueError(f"unknown member of a rule: {', '.join(sorted(unknown))}")
        if unknown := set(document.get("match", {})) - set(_TESTS):
            raise ValueError(f"a rule cannot match on: {', '.join(sorted(unknown))}")
        Fault.parse(document.get("action", {}))
        nth = document.get("nth")
        return cls(
            identifier,
            document.get("match", {}),
            document.get("action", {}),
            [nth] if isinstance(nth, int) else nth,
            document.get("times"),
            document.get("seen", 0),
            document.get("fired", 0),
        )

    def fires(self, arrival: Arrival) -> bool:
        """Counts the match; True where the action applies to it."""
        if not all(_TESTS[name](wanted, arrival) for name, wanted in self.match.items()):
            return False
        self.seen += 1
        if self.nth is not None and self.seen not in self.nth:
            return False
        if self.times is not None and self.fired >= self.times:
            return False
        self.fired += 1
        return True


_TESTS: dict[str, Callable[[Any, Arrival], bool]] = {
    "method": lambda wanted, arrival: arrival.method == str(wanted).upper(),
    "path": lambda wanted, arrival: fnmatch.fnmatchcase(arrival.path, wanted),
    "idem_key": lambda wanted, arrival: arrival.idem_key == wanted,
    "metadata": lambda wanted, arrival: _holds(arrival.params.get("metadata"), wanted),
    "params": lambda wanted, arrival: _holds(arrival.params, wanted),
    "contains": lambda wanted, arrival: wanted in arrival.text,
}


def _holds(members: Any, wanted: dict[str, Any]) -> bool:
    held = members if isinstance(members, dict) else {}
    return all(str(held.get(name)) == str(value) for name, value in wanted.items())


@dataclass
class Schedule:
    """Chances per preset, drawn from the seed, the key and the arrival's number for that key:
    the same seed gives the same faults whatever order parallel requests come in."""

    seed: int = 0
    chances: dict[str, float] = field(default_factory=dict)
    arrivals: dict[str, int] = field(default_factory=dict)

    def draw(self, arrival: Arrival) -> dict[str, Any]:
        if not self.chances or arrival.method != "POST":
            return {}
        key = arrival.idem_key or arrival.text
        number = self.arrivals[key] = self.arrivals.get(key, 0) + 1
        digest = hashlib.sha256(f"{self.seed}|{key}|{number}".encode()).digest()
        point = random.Random(digest).random()
        for name, chance in self.chances.items():
            if point < chance:
                return PRESETS[name]
            point -= chance
        return {}


class Faults:
    """The rules in force, oldest first; later rules win where two set the same thing."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.schedule = Schedule()

    def add(self, identifier: int, document: dict[str, Any]) -> Rule:
        rule = Rule.parse(identifier, document)
        self.rules.append(rule)
        return rule

    def pick(self, arrival: Arrival) -> Fault:
        action: dict[str, Any] = {}
        for rule in self.rules:
            if rule.fires(arrival):
                action |= rule.action
        return Fault(**(action or self.schedule.draw(arrival)))
