"""How many people have said yes: people first, then distinct keys, then every group. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Vote:
    """One decision that counts. `person` is an account, `email` what groups list."""

    person: str
    email: str
    key_id: str
    verdict: str


@dataclass(frozen=True)
class Tally:
    """`missing` says in words what is still needed; empty once `met`."""

    approvals: int
    denied: bool
    met: bool
    missing: str


def tally(votes: Iterable[Vote], quorum: int, groups: Sequence[Mapping[str, Any]]) -> Tally:
    """One person with two keys counts once, and so does one key under two accounts."""
    votes = list(votes)
    yes = [vote for vote in votes if vote.verdict == "approve"]
    counted = _distinct(yes)
    denied = any(vote.verdict == "deny" for vote in votes)
    missing = []
    if counted < quorum:
        missing.append(f"{quorum - counted} more of {quorum}")
    for group in groups:
        inside = _distinct([vote for vote in yes if vote.email in group["members"]])
        if inside < group["quorum"]:
            missing.append(f"{group['quorum'] - inside} of {group['name']}")
    met = quorum > 0 and not denied and not missing
    return Tally(counted, denied, met, ", ".join(missing))


def _distinct(votes: Sequence[Vote]) -> int:
    people = {vote.person for vote in votes}
    keys = {vote.key_id for vote in votes}
    return min(len(people), len(keys))
