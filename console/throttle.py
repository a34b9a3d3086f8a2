"""Slows down guessing at passwords: a few misses for one account or one address, then a pause.

Counted in the cache, which all web processes share; where the cache is away, in this process.
"""

import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from django.core.cache import cache

WINDOW_SECONDS: Final = 900
#: Misses within the window before the pause, for one account and for one network address.
MOST_PER_ACCOUNT: Final = 5
MOST_PER_ADDRESS: Final = 30


@dataclass(frozen=True)
class Counter:
    """Misses of one account or one address."""

    key: str
    most: int


_own: dict[str, list[float]] = {}


def counters(email: str, address: str) -> tuple[Counter, Counter]:
    """The two counters of one try."""
    return (
        Counter(f"login:account:{_digest(email.strip().lower())}", MOST_PER_ACCOUNT),
        Counter(f"login:address:{_digest(address)}", MOST_PER_ADDRESS),
    )


def seconds_to_wait(counted: tuple[Counter, ...]) -> int:
    """0, or how long until the next try is looked at."""
    return max(_wait(counter) for counter in counted)


def note_miss(counted: tuple[Counter, ...]) -> None:
    """Count one wrong password."""
    for counter in counted:
        misses = [*_recent(counter), time.time()]
        _keep(counter, misses[-counter.most :])


def forget(counter: Counter) -> None:
    """The password was right: the account starts anew. (Its address does not.)"""
    _keep(counter, [])


def _wait(counter: Counter) -> int:
    misses = _recent(counter)
    if len(misses) < counter.most:
        return 0
    return max(1, int(misses[0] + WINDOW_SECONDS - time.time()))


def _recent(counter: Counter) -> list[float]:
    try:
        misses = cache.get(counter.key) or []
    except Exception:  # noqa: BLE001 -- whatever the cache's client raises, the login goes on
        misses = _own.get(counter.key, [])
    return [at for at in misses if at > time.time() - WINDOW_SECONDS]


def _keep(counter: Counter, misses: list[float]) -> None:
    try:
        cache.set(counter.key, misses, WINDOW_SECONDS)
    except Exception:  # noqa: BLE001 -- see above
        _own[counter.key] = misses


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
