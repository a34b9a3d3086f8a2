"""The engine's half of a request: whose turn it is, what time it is, and is the provider up."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from reconcilers.breakers import Breakers
from reconcilers.limits import Bucket, Limiter, TooBusy
from reconcilers.providers.base import ProviderError

#: A wait for a turn that is longer than this is given up, and the look comes back later.
LONGEST_WAIT_SECONDS = 30.0

#: Days pass before anything is allowed again; somebody may raise the limit meanwhile.
_ALLOWANCE_PAUSE_SECONDS = 900.0


@dataclass(frozen=True)
class DatabaseClock:
    """The database's clock, carried on by this machine's: settle points are told by it.

    Taken from the end of the statement that read it, so that it is never ahead.
    """

    read: datetime
    at: float

    @classmethod
    def just_read(cls, moment: datetime) -> "DatabaseClock":
        """`moment` is what a statement that has just returned gave."""
        return cls(moment, time.monotonic())

    def now(self) -> datetime:
        """The instant that the database would give now, or slightly before."""
        return self.read + timedelta(seconds=time.monotonic() - self.at)


class AccountGate:
    """One account's turns, for one session. `limits` is requests per second by endpoint.

    `account` bounds all endpoints together, `*` those that are not named, and `month` the reads of
    30 days.
    """

    def __init__(
        self,
        account_id: UUID,
        limits: Mapping[str, float],
        *,
        limiter: Limiter,
        breakers: Breakers,
        clock: DatabaseClock,
    ) -> None:
        self.clock = clock
        self._account = str(account_id)
        self._limits = limits
        self._limiter = limiter
        self._breakers = breakers

    def now(self) -> datetime:
        """The database's clock."""
        return self.clock.now()

    async def turn(self, endpoint: str) -> None:
        """Wait for an instant that is free for the endpoint and for the account as a whole."""
        await self._check_allowance()
        buckets = [Bucket(self._bucket(name), rate) for name, rate in self._rates(endpoint)]
        if not buckets:
            self._limiter.reads.count(self._account)
            return
        try:
            await self._limiter.turn(*buckets, longest_wait=LONGEST_WAIT_SECONDS)
        except TooBusy as busy:
            slowest = min(bucket.rate for bucket in buckets)
            raise ProviderError(
                f"our own limit of {slowest:g} requests a second leaves no turn for"
                f" {busy.seconds:.0f} s",
                retry_after_seconds=busy.seconds,
            ) from None
        self._limiter.reads.count(self._account)

    async def _check_allowance(self) -> None:
        """What the month allows is not passed: the provider would slow all of the account down."""
        allowed = self._limits.get("month")
        if allowed is None or await self._limiter.reads.used(self._account) < allowed:
            return
        raise ProviderError(
            f"the {allowed:,.0f} reads that this account may use in 30 days are used up: its limit"
            " `month` can be raised",
            retry_after_seconds=_ALLOWANCE_PAUSE_SECONDS,
        )

    def _rates(self, endpoint: str) -> list[tuple[str, float]]:
        own = self._limits.get(endpoint, self._limits.get("*"))
        named = [(endpoint, own), ("account", self._limits.get("account"))]
        return [(name, float(rate)) for name, rate in named if rate is not None]

    async def answered(self, endpoint: str) -> None:
        """It answered: the circuit closes, if it was not closed."""
        if self._breakers.is_suspect(self._account):
            await asyncio.to_thread(self._breakers.answered, self._account)

    async def failed(self, endpoint: str, error: ProviderError) -> None:
        """Obey a Retry-After; count what says that the provider is down."""
        if error.status == 429:
            await self._limiter.push_back(self._bucket(endpoint), error.retry_after_seconds or 1.0)
        if error.status is None or error.status >= 500:
            await asyncio.to_thread(self._breakers.failed, self._account)
        else:
            await self.answered(endpoint)

    def _bucket(self, endpoint: str) -> str:
        return f"{self._account}:{endpoint}"
