"""Who did it, by name: people, runtimes and parts of the system."""

import uuid
from collections.abc import Iterable

from approvals.models import User
from operations.models import ApiKey

_PARTS = {
    "sweeper": "Sweeper",
    "reconciler": "Reconciler",
    "expiry": "Expiry",
    "sequencer": "Sequencer",
    "webhook": "Provider webhook",
}


def names(actors: Iterable[str]) -> dict[str, str]:
    """`user:<id>` -> the person's name, `runtime:<id>` -> the API key's name, and so on."""
    wanted = {actor for actor in actors if actor}
    people = _ids(wanted, "user")
    runtimes = _ids(wanted, "runtime")
    found = {f"user:{user.id}": str(user) for user in User.objects.filter(id__in=people) if people}
    found |= {
        f"runtime:{key.id}": key.name for key in ApiKey.objects.filter(id__in=runtimes) if runtimes
    }
    for actor in wanted - found.keys():
        kind, _, rest = actor.partition(":")
        found[actor] = _PARTS.get(rest, rest.replace("_", " ")) if kind == "system" else actor
    return found


def _ids(actors: Iterable[str], kind: str) -> list[uuid.UUID]:
    ids = []
    for actor in actors:
        head, _, rest = actor.partition(":")
        if head == kind:
            try:
                ids.append(uuid.UUID(rest))
            except ValueError:
                continue
    return ids
