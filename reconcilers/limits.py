"""How often a provider is asked: one paced limit per account and endpoint, shared by all workers.

GCRA in Redis: each request reserves the next free instant and waits for it, so that requests are
spread evenly and a limit of 20/s is used to the full without one 429. Without Redis each process
paces itself at a quarter of the rate, and says so.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any, Final

import redis
from redis import asyncio as redis_async

from reconcilers.allowances import Reads

logger = logging.getLogger(__name__)

#: Share of a limit that is used: answers jitter by some milliseconds on their way.
HEADROOM: Final = 0.985
#: Without Redis nobody knows what the other workers do.
CAUTIOUS_SHARE: Final = 0.25
#: For so long after Redis failed, it is not tried again.
REDIS_PAUSE_SECONDS: Final = 2.0
#: Turns that fit into this long are reserved together.
_BLOCK_SECONDS: Final = 0.02
#: Two requests of one process are never closer than this many intervals.
_SPACING: Final = 1.0

# KEYS the buckets of one request; ARGV: longest wait, turns wanted, then for each bucket the
# seconds between two requests. Gives the wait until the first turn in microseconds, or minus that
# where it is too long (nothing is reserved then).
_RESERVE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local first = now
for i, key in ipairs(KEYS) do
  local next_free = tonumber(redis.call('GET', key) or '0')
  if next_free > first then first = next_free end
end
if first - now > tonumber(ARGV[1]) * 1000000 then return string.format('-%.0f', first - now) end
for i, key in ipairs(KEYS) do
  local next_free = first + tonumber(ARGV[i + 2]) * tonumber(ARGV[2]) * 1000000
  redis.call('SET', key, string.format('%.0f', next_free),
             'PX', math.ceil((next_free - now) / 1000) + 1000)
end
return string.format('%.0f', first - now)
"""
# KEYS[1] the bucket; ARGV[1] the seconds for which nobody gets a turn.
_PUSH: Final = """
local time = redis.call('TIME')
local free_at = time[1] * 1000000 + time[2] + tonumber(ARGV[1]) * 1000000
if tonumber(redis.call('GET', KEYS[1]) or '0') < free_at then
  redis.call('SET', KEYS[1], string.format('%.0f', free_at),
             'PX', math.ceil(tonumber(ARGV[1]) * 1000) + 1000)
end
return 0
"""


class TooBusy(Exception):
    """The next free turn is further away than the caller wants to wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the next free turn is in {seconds:.1f} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Bucket:
    """One limit that a request counts against."""

    name: str
    rate: float

    @property
    def interval(self) -> float:
        """Seconds between two requests."""
        return 1.0 / (self.rate * HEADROOM)


@dataclass
class _Block:
    """Turns of one set of buckets that this process holds already, and when it last sent."""

    next_at: float = 0.0
    left: int = 0
    sent_at: float = 0.0


class Limiter:
    """Turns for requests. One per event loop; `shared` is False while Redis is away."""

    def __init__(self, redis_url: str) -> None:
        self._redis: redis_async.Redis = redis_async.Redis.from_url(
            redis_url, socket_timeout=1.0, socket_connect_timeout=1.0
        )
        self._reserve_script = self._redis.register_script(_RESERVE)
        self._push_script = self._redis.register_script(_PUSH)
        self._blocks: dict[tuple[str, ...], _Block] = {}
        self._local: dict[str, float] = {}
        self._away_until = 0.0
        self.reads = Reads(self._redis)

    @property
    def shared(self) -> bool:
        """Whether the limit is shared with the other workers at present."""
        return time.monotonic() >= self._away_until

    async def turn(self, *buckets: Bucket, longest_wait: float = 30.0) -> None:
        """Wait for the next instant that is free in all; TooBusy instead of a longer wait."""
        names = tuple(bucket.name for bucket in buckets)
        interval = max(bucket.interval for bucket in buckets)
        block = self._blocks.setdefault(names, _Block())
        if not block.left:
            # Of a high limit several turns are taken at a time: one round trip for all of them.
            wanted = max(1, int(_BLOCK_SECONDS / interval))
            wait = await self._reserve(buckets, wanted, longest_wait)
            if wait < 0:
                raise TooBusy(-wait)
            if not block.left:
                block.next_at, block.left = time.monotonic() + wait, wanted
                at = self._take(block, interval)
            else:
                # Somebody else of this process reserved meanwhile; this turn is ours all the same.
                at = time.monotonic() + wait
        else:
            at = self._take(block, interval)
        await self._until(block, at, interval)

    def _take(self, block: _Block, interval: float) -> float:
        at = block.next_at
        block.next_at, block.left = at + interval, block.left - 1
        return at

    async def _until(self, block: _Block, at: float, interval: float) -> None:
        """Sleep; a process that was held up sends what is overdue one by one, never as a burst."""
        while True:
            now = time.monotonic()
            pause = max(at, block.sent_at + interval * _SPACING) - now
            if pause <= 0:
                block.sent_at = now
                return
            await asyncio.sleep(pause)

    async def push_back(self, name: str, seconds: float) -> None:
        """Nobody gets a turn for so long: the provider asked for it (Retry-After)."""
        if seconds <= 0:
            return
        for names, block in self._blocks.items():
            if name in names:
                block.left = 0
        self._local[name] = max(self._local.get(name, 0.0), time.monotonic() + seconds)
        await self._redis_or_none(self._push_script, [_key(name)], [seconds])

    async def close(self) -> None:
        """Write down what was read, and give the connections back."""
        await self.reads.write()
        await self._redis.aclose()

    async def _reserve(self, buckets: tuple[Bucket, ...], wanted: int, longest: float) -> float:
        answer = await self._redis_or_none(
            self._reserve_script,
            [_key(bucket.name) for bucket in buckets],
            [longest, wanted, *(bucket.interval for bucket in buckets)],
        )
        if answer is not None:
            return float(answer) / 1e6
        now = time.monotonic()
        first = max(now, *(self._local.get(bucket.name, 0.0) for bucket in buckets))
        if first - now > longest:
            return now - first
        for bucket in buckets:
            self._local[bucket.name] = first + bucket.interval * wanted / CAUTIOUS_SHARE
        return first - now

    async def _redis_or_none(self, script: Any, keys: list[str], args: list[float]) -> Any:
        """The script's answer, or None while Redis is away."""
        if not self.shared:
            return None
        try:
            return await script(keys=keys, args=args)
        except (redis.RedisError, OSError, TimeoutError) as error:
            self._away_until = time.monotonic() + REDIS_PAUSE_SECONDS
            logger.warning(
                "Redis does not answer (%s): asking providers at %d %% of their limits",
                type(error).__name__,
                CAUTIOUS_SHARE * 100,
            )
            return None


def _key(name: str) -> str:
    return f"countersign:turns:{name}"
