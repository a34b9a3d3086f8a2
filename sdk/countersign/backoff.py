"""Retries at one layer only: full jitter, and a bucket of tokens that an outage empties."""

import random
import threading

_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 15.0


def pause_before(number: int, retry_after: float | None = None) -> float:
    """Seconds to wait before retry `number` (from 1): jitter over an exponential span, never less
    than what the console asked for."""
    span = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(number, 20))
    return (retry_after or 0.0) + random.uniform(0, span)  # noqa: S311 -- spreads load


class RetryBudget:
    """Each retry costs a token, each success gives a tenth back: while nothing succeeds, callers
    soon stop retrying instead of multiplying the load of an outage."""

    def __init__(self, tokens: float = 20.0) -> None:
        self._capacity = tokens
        self._tokens = tokens
        self._lock = threading.Lock()

    def spend(self) -> bool:
        with self._lock:
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True

    def succeeded(self) -> None:
        with self._lock:
            self._tokens = min(self._capacity, self._tokens + 0.1)
