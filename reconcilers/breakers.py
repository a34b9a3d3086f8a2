"""A circuit breaker per account: a provider that is down is left alone, and probed.

Closed, then open after some failures in a row, then half-open: one question goes through as a
probe, at the latest every thirty seconds. Shared through Redis; without it each process keeps its
own count, which only means some more probes.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

import redis

FAILURES_TO_OPEN: Final = 5
FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 25.0
#: A probe that never comes back stops holding the door after this long.
PROBE_SECONDS: Final = 30.0

# KEYS[1] the breaker's hash. Gives {state, seconds}: 'closed', 'probe' (go, alone) or 'open'.
_ASK: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local open_until = tonumber(redis.call('HGET', KEYS[1], 'open_until') or '0')
if open_until == 0 then return {'closed', '0'} end
local free_at = open_until
local probing = tonumber(redis.call('HGET', KEYS[1], 'probe_until') or '0')
if probing > free_at then free_at = probing end
if now < free_at then return {'open', tostring(free_at - now)} end
redis.call('HSET', KEYS[1], 'probe_until', tostring(now + tonumber(ARGV[1])))
return {'probe', '0'}
"""
_STATE: Final = """
local time = redis.call('TIME')
local open_until = tonumber(redis.call('HGET', KEYS[1], 'open_until') or '0')
if open_until == 0 then return 'closed' end
if time[1] + time[2] / 1000000 < open_until then return 'open' end
return 'half-open'
"""
# ARGV: failures to open, first pause, longest pause. Gives the pause in seconds, 0 while closed.
_FAILED: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local failures = redis.call('HINCRBY', KEYS[1], 'failures', 1)
redis.call('EXPIRE', KEYS[1], 3600)
redis.call('HDEL', KEYS[1], 'probe_until')
if failures < tonumber(ARGV[1]) then return '0' end
local pause = tonumber(ARGV[2]) * 2 ^ math.min(failures - tonumber(ARGV[1]), 10)
if pause > tonumber(ARGV[3]) then pause = tonumber(ARGV[3]) end
redis.call('HSET', KEYS[1], 'open_until', tostring(now + pause))
return tostring(pause)
"""


@dataclass(frozen=True)
class Door:
    """`closed` (the circuit: go), `probe` (go with one question) or `open` (for `seconds`)."""

    state: str
    seconds: float = 0.0


@dataclass
class _Count:
    failures: int = 0
    open_until: float = 0.0


class Breakers:
    """The breakers of all accounts, as one process meets them."""

    def __init__(self, redis_url: str) -> None:
        self._redis = redis.Redis.from_url(
            redis_url, socket_timeout=1.0, socket_connect_timeout=1.0
        )
        self._local: dict[str, _Count] = {}

    def ask(self, account: str) -> Door:
        """May this account be asked now?"""
        try:
            state, seconds = self._run(_ASK, account, PROBE_SECONDS)
            door = Door(state.decode(), float(seconds))
            if door.state == "probe":
                self._local.setdefault(account, _Count())
            return door
        except (redis.RedisError, OSError):
            count = self._local.get(account)
            if count is None or count.open_until == 0.0:
                return Door("closed")
            left = count.open_until - time.monotonic()
            return Door("open", left) if left > 0 else Door("probe")

    def is_suspect(self, account: str) -> bool:
        """Whether an answer is news: this process saw a failure, or went through as a probe."""
        return account in self._local

    def answered(self, account: str) -> None:
        """The provider answered: closed."""
        self._local.pop(account, None)
        try:
            self._redis.delete(_key(account))
        except (redis.RedisError, OSError):
            return

    def failed(self, account: str) -> None:
        """It did not answer, or answered with a 5xx."""
        count = self._local.setdefault(account, _Count())
        count.failures += 1
        if count.failures >= FAILURES_TO_OPEN:
            over = min(count.failures - FAILURES_TO_OPEN, 10)
            pause = min(FIRST_PAUSE_SECONDS * 2**over, LONGEST_PAUSE_SECONDS)
            count.open_until = time.monotonic() + pause
        try:
            self._run(
                _FAILED, account, FAILURES_TO_OPEN, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
            )
        except (redis.RedisError, OSError):
            return

    def state(self, account: str) -> str:
        """For pages: `closed`, `open`, `half-open` (a probe may go, or is under way), or `unknown`
        while Redis is away. Reserves nothing."""
        try:
            return str(self._run(_STATE, account).decode())
        except (redis.RedisError, OSError):
            return "unknown"

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()

    def _run(self, script: str, account: str, *args: float) -> Any:
        return self._redis.eval(script, 1, _key(account), *[str(arg) for arg in args])


def _key(account: str) -> str:
    return f"countersign:breaker:{account}"
