"""How often a provider is asked: one paced limit per account and endpoint, shared by all workers.

GCRA in Redis: each request reserves the next free instant and waits for it, so that requests are
spread evenly and a limit of 20/s is used to the full without one 429. Without Redis each process
paces itself at a quarter of the rate, and says so.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Any, Final

import redis
from redis import asyncio as redis_async

logger = logging.getLogger(__name__)

#: Share of a limit that is used: answers jitter by some milliseconds on their way.
HEADROOM: Final = 0.985
#: Without Redis nobody knows what the other workers do.
CAUTIOUS_SHARE: Final = 0.25
#: For so long after Redis failed, it is not tried again.
REDIS_PAUSE_SECONDS: Final = 2.0

# KEYS[1] the bucket; ARGV: seconds between two requests, longest wait, seconds to push it back.
# Gives the wait in microseconds, or minus that where it is too long (nothing is reserved then).
_RESERVE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = tonumber(ARGV[1]) * 1000000
local longest = tonumber(ARGV[2]) * 1000000
local push = tonumber(ARGV[3]) * 1000000
local next_free = tonumber(redis.call('GET', KEYS[1]) or '0')
if next_free < now then next_free = now end
if push > 0 then
  if next_free < now + push then next_free = now + push end
  redis.call('SET', KEYS[1], string.format('%.0f', next_free), 'PX', math.ceil((next_free - now) / 1000) + 1000)
  return 0
end
local wait = next_free - now
if wait > longest then return string.format('-%.0f', wait) end
redis.call('SET', KEYS[1], string.format('%.0f', next_free + interval), 'PX', math.ceil((wait + interval) / 1000) + 1000)
return string.format('%.0f', wait)
"""  # noqa: E501


class TooBusy(Exception):
    """The next free turn is further away than the caller wants to wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the next free turn is in {seconds:.1f} s")
        self.seconds = seconds


@dataclass
class _Local:
    """One process's own pace, while Redis is away."""

    next_free: dict[str, float] = field(default_factory=dict)

    def reserve(self, key: str, interval: float, longest: float, push: float) -> float:
        now = time.monotonic()
        next_free = max(self.next_free.get(key, 0.0), now)
        if push:
            self.next_free[key] = max(next_free, now + push)
            return 0.0
        wait = next_free - now
        if wait > longest:
            return -wait
        self.next_free[key] = next_free + interval / CAUTIOUS_SHARE
        return wait


class Limiter:
    """Turns for requests. One per event loop; `shared` is False while Redis is away."""

    def __init__(self, redis_url: str) -> None:
        self._redis: redis_async.Redis = redis_async.Redis.from_url(
            redis_url, socket_timeout=1.0, socket_connect_timeout=1.0
        )
        self._script = self._redis.register_script(_RESERVE)
        self._local = _Local()
        self._away_until = 0.0

    @property
    def shared(self) -> bool:
        """Whether the limit is shared with the other workers at present."""
        return time.monotonic() >= self._away_until

    async def turn(self, bucket: str, rate: float, *, longest_wait: float = 30.0) -> None:
        """Wait for the next free instant at `rate` per second; raises TooBusy instead of waiting
        longer than `longest_wait`."""
        wait = await self._reserve(bucket, 1.0 / (rate * HEADROOM), longest_wait, 0.0)
        if wait < 0:
            raise TooBusy(-wait)
        if wait:
            await asyncio.sleep(wait)

    async def push_back(self, bucket: str, seconds: float) -> None:
        """Nobody gets a turn for so long: the provider asked for it (Retry-After)."""
        if seconds > 0:
            await self._reserve(bucket, 0.0, 0.0, seconds)

    async def close(self) -> None:
        """Give the connections back."""
        await self._redis.aclose()

    async def _reserve(self, bucket: str, interval: float, longest: float, push: float) -> float:
        key = f"countersign:turns:{bucket}"
        if self.shared:
            try:
                answer: Any = await self._script(keys=[key], args=[interval, longest, push])
                return float(answer) / 1e6
            except (redis.RedisError, OSError, TimeoutError) as error:
                self._away_until = time.monotonic() + REDIS_PAUSE_SECONDS
                logger.warning(
                    "Redis does not answer (%s): asking providers at %d %% of their limits",
                    type(error).__name__,
                    CAUTIOUS_SHARE * 100,
                )
        return self._local.reserve(key, interval, longest, push)
