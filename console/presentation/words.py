"""What people read: one headline for an operation, derived from its row and never stored.

Each headline has a word, an icon and a shape (the CSS class ``state-<key>``), because colour alone
cannot carry a state. The words are those of the domain page.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from operations import states

#: Approved but not executed for this long is *stalled*.
STALLED_AFTER: Final = timedelta(minutes=5)

#: Verdicts that no sweep will resolve: a person has to look.
CONFLICTS: Final = ("conflict", "duplicate")


@dataclass(frozen=True)
class Headline:
    """A state as people see it; `key` names its shape, `tells` says it in a sentence."""

    key: str
    word: str
    icon: str
    tells: str = ""


HEADLINES: Final[dict[str, Headline]] = {
    "pending": Headline(
        "pending", "Pending", "circle-dashed", "The intent is recorded; nobody has claimed it."
    ),
    "waiting": Headline(
        "waiting",
        "Waiting for approval",
        "hourglass",
        "It will not run until people have signed for it.",
    ),
    "stalled": Headline(
        "stalled",
        "Approved, not run",
        "triangle-alert",
        "People said yes, but no runtime has come back to run it.",
    ),
    "running": Headline(
        "running", "Running", "loader-circle", "One attempt holds the lease and may act."
    ),
    "committed": Headline(
        "committed", "Committed", "circle-check", "The effect took place and is recorded."
    ),
    "unknown": Headline(
        "unknown",
        "Unknown",
        "diamond-help",
        "It may have happened. Silence is not proof: only the provider can tell.",
    ),
    "conflict": Headline(
        "conflict",
        "Evidence conflict",
        "git-compare",
        "The provider's answers contradict the record. A person has to decide.",
    ),
    "failed": Headline(
        "failed",
        "Failed, nothing happened",
        "octagon-x",
        "It is certain that no effect took place.",
    ),
    "settled-yes": Headline(
        "settled-yes",
        "Settled: happened",
        "shield-check",
        "A person settled it: the effect took place.",
    ),
    "settled-no": Headline(
        "settled-no",
        "Settled: did not happen",
        "shield-x",
        "A person settled it: there was no effect.",
    ),
    "absent": Headline(
        "failed",
        "Proved absent",
        "octagon-x",
        "The provider's records prove that nothing happened.",
    ),
    "denied": Headline("flat", "Denied", "ban", "A reviewer said no. It did not run."),
    "expired": Headline("flat", "Expired", "clock", "Nobody decided in time. It did not run."),
    "withdrawn": Headline("flat", "Withdrawn", "log-out", "The request was taken back."),
    "cancelled": Headline("flat", "Cancelled", "circle-slash", "It was called off before it ran."),
    "superseded": Headline("flat", "Superseded", "arrow-right", "Another operation replaced it."),
}

_FAILURES: Final = {
    "settled_absent": "settled-no",
    "absent": "absent",
    "denied": "denied",
    "expired": "expired",
    "withdrawn": "withdrawn",
    "cancelled": "cancelled",
    "superseded": "superseded",
}

FAILURE_WORDS: Final = {
    "denied": "a reviewer denied it",
    "expired": "nobody approved it in time",
    "withdrawn": "the request was withdrawn",
    "cancelled": "it was cancelled before it ran",
    "superseded": "another operation replaced it",
    "budget_exceeded": "the run's budget was used up",
    "attempts_exhausted": "all its attempts were used up",
    "goal_exhausted": "its goal had failed too often",
    "provider_declined": "the provider declined it for good",
    "absent": "the provider's records prove that nothing happened",
    "settled_absent": "a person settled that it did not happen",
}

WAITING_WORDS: Final = {
    "runtime": "a runtime to claim it",
    "approval": "a reviewer",
    "sealing": "the ledger to seal the decision",
    "lease": "the attempt that holds the lease",
    "look": "the next look at the provider",
    "person": "a person",
}


class OperationRow(Protocol):
    """The columns of an operation that its headline depends on."""

    @property
    def state(self) -> str: ...
    @property
    def gate(self) -> str: ...
    @property
    def gate_used(self) -> bool: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def verdict(self) -> dict[str, object] | None: ...
    @property
    def updated_at(self) -> datetime: ...


def headline(operation: OperationRow, *, now: datetime) -> Headline:
    """The one pill that stands for the operation's three facts."""
    return HEADLINES[_headline_key(operation, now)]


def _headline_key(operation: OperationRow, now: datetime) -> str:
    match operation.state:
        case states.COMMITTED:
            return "committed"
        case states.INVOKED:
            return "running"
        case states.FAILED:
            return _FAILURES.get(operation.failure or "", "failed")
        case states.UNKNOWN:
            return "conflict" if verdict_kind(operation) in CONFLICTS else "unknown"
    if operation.gate == "waiting":
        return "waiting"
    unused = operation.gate == "granted" and not operation.gate_used
    return "stalled" if unused and operation.updated_at < now - STALLED_AFTER else "pending"


def verdict_kind(operation: OperationRow) -> str | None:
    """What the findings prove so far, or None before the first look."""
    kind = (operation.verdict or {}).get("kind")
    return str(kind) if kind else None


VERDICTS: Final[dict[str, Headline]] = {
    "committed": Headline("committed", "It happened", "circle-check"),
    "committed_late": Headline("committed", "It happened, late", "circle-check"),
    "in_flight": Headline("running", "Exists, not finished", "loader-circle"),
    "absent": Headline("settled-no", "Proved absent", "circle-slash"),
    "waiting": Headline("pending", "Not visible yet", "circle-dashed"),
    "conflict": Headline("conflict", "Evidence conflict", "git-compare"),
    "duplicate": Headline("conflict", "Found more than once", "layers"),
    "cannot_look": Headline("waiting", "Asked, no answer", "unplug"),
    "needs_human": Headline("stalled", "Needs a person", "user"),
}

NOT_LOOKED: Final = Headline("pending", "Not asked yet", "circle-dashed")

NOT_ASKED: Final = Headline("flat-plain", "Not asked", "circle-slash")

OUTCOMES: Final[dict[str, Headline]] = {
    "hit": Headline("committed", "Found", "circle-check"),
    "empty": Headline("pending", "Nothing found", "circle-dashed"),
    "pending": Headline("running", "Found, not finished", "loader-circle"),
    "cannot_look": Headline("waiting", "No answer", "unplug"),
}


def verdict_headline(kind: str | None) -> Headline:
    """The verdict's pill; an unknown kind is shown by its own name."""
    if kind is None:
        return NOT_LOOKED
    return VERDICTS.get(kind, Headline("pending", kind, "circle-dashed"))
