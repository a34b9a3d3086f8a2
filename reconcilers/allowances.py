"""How many reads an account has used in 30 days. Stripe allows 500 a transaction, 10,000 at least.

Counted in Redis by day, beside the limits: an estimate that a lost Redis makes too low, never a
fact that anything is concluded from. With a limit called `month` it is also a bound.
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import redis
from redis import asyncio as redis_async

logger = logging.getLogger(__name__)

DAYS: Final = 30
_DAY_SECONDS: Final = 86_400
#: Reads are written down together, and what was used is asked for, no more often than this.
_EVERY_SECONDS: Final = 5.0


class Reads:
    """One process's reads on their way to the shared count."""

    def __init__(self, shared: redis_async.Redis) -> None:
        self._redis = shared
        self._unwritten: Counter[str] = Counter()
        self._written_at = time.monotonic()
        self._used: dict[str, tuple[float, int]] = {}

    def count(self, account: str) -> None:
        """One read was made."""
        self._unwritten[account] += 1

    async def used(self, account: str) -> int:
        """Reads of the last 30 days, a few seconds behind; 0 while Redis is away."""
        await self.write(at_once=False)
        asked_at, used = self._used.get(account, (float("-inf"), 0))
        if time.monotonic() - asked_at >= _EVERY_SECONDS:
            # Noted before it is asked: those who come meanwhile need not ask as well.
            self._used[account] = (time.monotonic(), used)
            try:
                used = _sum(await self._redis.mget(_keys(account)))
            except (redis.RedisError, OSError, TimeoutError):
                used = 0
            self._used[account] = (time.monotonic(), used)
        return used + self._unwritten[account]

    async def write(self, *, at_once: bool = True) -> None:
        """Add what was counted here to what all have counted."""
        if not self._unwritten or (
            not at_once and time.monotonic() - self._written_at < _EVERY_SECONDS
        ):
            return
        counted, self._unwritten = self._unwritten, Counter()
        self._written_at = time.monotonic()
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for account, reads in counted.items():
                    key = _key(account, _today())
                    pipe.incrby(key, reads)
                    pipe.expire(key, (DAYS + 1) * _DAY_SECONDS)
                await pipe.execute()
        except (redis.RedisError, OSError, TimeoutError) as error:
            logger.warning("%d reads were not counted: %s", counted.total(), type(error).__name__)


def used_by(redis_url: str, accounts: Sequence[str]) -> dict[str, int]:
    """Reads of the last 30 days by account, for pages; empty while Redis is away."""
    client = redis.Redis.from_url(redis_url, socket_timeout=1.0, socket_connect_timeout=1.0)
    try:
        return {account: _sum(client.mget(_keys(account))) for account in accounts}
    except (redis.RedisError, OSError, TimeoutError):
        return {}
    finally:
        client.close()


def _sum(values: Any) -> int:
    return sum(int(value) for value in values if value is not None)


def _keys(account: str) -> list[str]:
    return [_key(account, _today() - ago) for ago in range(DAYS)]


def _key(account: str, day: int) -> str:
    return f"countersign:reads:{account}:{day}"


def _today() -> int:
    return int(time.time() // _DAY_SECONDS)
