"""The three facts of an operation, never folded into one: Decision, Claim, Outcome."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.presentation import words
from operations import states
from operations.models import Attempt, Operation


@dataclass(frozen=True)
class Fact:
    """One of the three. `at` is printed after the words; `tone` picks icon and shape, not truth."""

    name: str
    says: str
    icon: str
    key: str
    at: datetime | None = None
    more: str = ""


_GATES: Final = {
    "none": ("No approval needed", "circle-dot", "pending"),
    "waiting": ("Waiting for approval", "hourglass", "waiting"),
    # Never in the colours of success: approved is not executed.
    "granted": ("Approved", "stamp", "approved"),
    "revoked": ("Approval revoked", "ban", "failed"),
}
_REFUSED: Final = {
    "denied": ("Denied", "ban"),
    "expired": ("Expired undecided", "clock"),
    "withdrawn": ("Withdrawn", "log-out"),
}


def decision(operation: Operation, *, by: str, at: datetime | None) -> Fact:
    """What people said. `by` names who signed, empty where nobody has."""
    if operation.gate == "refused":
        says, icon = _REFUSED.get(operation.failure or "", ("Refused", "ban"))
        return Fact("Decision", says, icon, "flat", at, by)
    says, icon, key = _GATES[operation.gate]
    if operation.gate == "waiting":
        return Fact("Decision", says, icon, key, operation.gate_expires_at, "expires")
    return Fact("Decision", says, icon, key, at, by)


def claim(operation: Operation, newest: Attempt | None) -> Fact:
    """Who may act now, or how the last right to act ended."""
    if newest is None:
        return Fact("Claim", "Unclaimed", "circle-dashed", "pending")
    number = f"Attempt {newest.number}"
    match newest.standing:
        case "live":
            return Fact(
                "Claim",
                f"{number} holds the lease",
                "lock",
                "running",
                operation.lease_expires_at or newest.lease_expires_at,
                "until",
            )
        case "committed":
            return Fact("Claim", f"{number} acted", "check", "committed", newest.ended_at)
        case "no_effect":
            return Fact("Claim", f"{number}: no effect", "x", "failed", newest.ended_at)
        case "not_sent":
            return Fact(
                "Claim", f"{number}: never sent", "circle-slash", "pending", newest.ended_at
            )
        case "covered":
            return Fact("Claim", f"{number}: covered", "layers", "committed", newest.ended_at)
    if newest.outcome == "lapsed":
        return Fact("Claim", f"{number}: lease lapsed", "clock-alert", "unknown", newest.ended_at)
    return Fact("Claim", f"{number} is in doubt", "diamond-help", "unknown", newest.ended_at)


def outcome(operation: Operation, *, since: datetime | None, settled_by: str) -> Fact:
    """What came of it. `settled_by` names a person whose signature settled it."""
    match operation.state:
        case states.COMMITTED if settled_by:
            return Fact(
                "Outcome", "Settled: happened", "shield-check", "settled-yes", since, settled_by
            )
        case states.COMMITTED:
            return Fact("Outcome", "Succeeded", "circle-check", "committed", since)
        case states.UNKNOWN:
            return Fact("Outcome", "Unknown", "diamond-help", "unknown", since, "since")
        case states.FAILED:
            head = words.HEADLINES.get(
                "settled-no" if operation.failure == "settled_absent" else "failed",
                words.HEADLINES["failed"],
            )
            why = words.FAILURE_WORDS.get(operation.failure or "", "")
            return Fact("Outcome", head.word, head.icon, head.key, since, settled_by or why)
    return Fact("Outcome", "None yet", "circle-dashed", "pending")
