"""The engine: leases batches lane by lane and works on all lanes at once, in one event loop.

One engine serves every lane, so a slow provider holds nobody up; two engines share the lanes
through the leases. It ends when nothing is due, or when its time is up.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import Error, connection

from reconcilers import accounts, conclusions, dossiers, queue, registry, slices, sweeps
from reconcilers.breakers import Breakers
from reconcilers.limits import Limiter
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import Session
from reconcilers.slices import Conclude
from reconcilers.turns import AccountGate, DatabaseClock

logger = logging.getLogger(__name__)

#: One list window serves all of a batch, so it is large; each look is concluded as it comes.
BATCH: Final = 20_000
_POLL_SECONDS: Final = 0.25
_RENEW_SECONDS: Final = 5.0
_SWEEP_SECONDS: Final = 1.0
#: What comes due within this long is waited for: the next tick would come no sooner.
_PATIENCE_SECONDS: Final = 1.2
_THREADS: Final = 6
#: Postgres may be restarting: so many polls in a row may fail before the engine gives up.
_FAILURES: Final = 40


class Engine:
    """One run. `kind` works on accounts of one provider only; None on all, and on no account."""

    def __init__(
        self,
        *,
        kind: str | None = None,
        conclude: Conclude = conclusions.conclude,
        patience_seconds: float = _PATIENCE_SECONDS,
        keep_seat: Callable[[], None] | None = None,
    ) -> None:
        self._kind = kind
        self._keep_seat = keep_seat
        self._patience = patience_seconds
        self._conclude = conclude
        self._name = uuid.uuid4().hex[:12]
        self._sessions: dict[UUID, tuple[bytes, Session, AccountGate]] = {}
        self._working: dict[asyncio.Task[Counter[str]], str] = {}
        self._holders: dict[asyncio.Task[Counter[str]], str] = {}
        self.counts: Counter[str] = Counter()

    async def run(self, seconds: float) -> Counter[str]:
        """Work until nothing is due, or for `seconds`; then finish what was begun."""
        async with self._parts():
            try:
                await self._loop(time.monotonic() + seconds)
            finally:
                await asyncio.gather(*self._working, return_exceptions=True)
        return self.counts

    async def rehearse(self, operation_ids: Sequence[UUID], conclude: Conclude) -> None:
        """Ask about these operations, lease and write nothing, and tell `conclude` the looks."""
        async with self._parts():
            for lane in await self._in_thread(_lanes_of, operation_ids):
                await self._slice(lane, conclude=conclude, learn=False)

    @contextlib.asynccontextmanager
    async def _parts(self) -> AsyncIterator[None]:
        """What one event loop needs, opened and given back."""
        self._limiter = Limiter(settings.REDIS_URL)
        self._breakers = Breakers(settings.REDIS_URL)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="reconcile")
        try:
            yield
        finally:
            for _, session, _ in self._sessions.values():
                await session.close()
            await self._limiter.close()
            self._breakers.close()
            self._threads.shutdown()

    async def _loop(self, ends_at: float) -> None:
        renewed = swept = time.monotonic()
        failures = 0
        while True:
            now = time.monotonic()
            try:
                if now - swept >= _SWEEP_SECONDS:
                    swept = now
                    self.counts += Counter(
                        await self._in_thread(_sweep, self._keep_seat, self._limiter.shared)
                    )
                if now - renewed >= _RENEW_SECONDS:
                    renewed = now
                    await self._in_thread(_renew, list(self._holders.values()))
                idle = await self._begin_slices(may_begin=now < ends_at)
                failures = 0
            except Error as error:
                # Postgres restarts; what is under way keeps its answers and offers them again.
                failures += 1
                logger.warning("Postgres does not answer: %s", str(error).partition("\n")[0])
                if failures > _FAILURES:
                    raise
                idle = False
            if not self._working and (idle or time.monotonic() >= ends_at):
                return
            await self._wait()

    async def _wait(self) -> None:
        if self._working:
            done, _ = await asyncio.wait(
                self._working, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                self._ended(task)
        else:
            await asyncio.sleep(_POLL_SECONDS)

    def _ended(self, task: asyncio.Task[Counter[str]]) -> None:
        lane = self._working.pop(task)
        self._holders.pop(task, None)
        error = task.exception()
        if error is None:
            self.counts += task.result()
        else:
            # Its leases lapse; the looks are made again.
            logger.error("a slice of lane %s failed", lane, exc_info=error)
            self.counts["slices_failed"] += 1

    async def _begin_slices(self, *, may_begin: bool) -> bool:
        """Start a slice for every lane that has work; True where nothing is due soon."""
        if not may_begin:
            return True
        lanes = await self._in_thread(_lanes, self._kind)
        for lane, due in lanes:
            for strikes in (0, 1, 2):
                holder = f"{self._name}:{uuid.uuid4().hex[:8]}"
                leases = await self._in_thread(_lease, lane, holder, min(due, BATCH), strikes)
                if leases:
                    task = asyncio.create_task(self._slice(leases))
                    self._working[task], self._holders[task] = lane, holder
        if lanes:
            return False
        seconds = await self._in_thread(_seconds_to_next, self._kind)
        return seconds is None or seconds > self._patience

    async def _slice(
        self, leases: list[queue.Lease], *, conclude: Conclude | None = None, learn: bool = True
    ) -> Counter[str]:
        batch = await self._in_thread(slices.read_batch, leases)
        work = slices.Slice(
            batch,
            in_thread=self._in_thread,
            breakers=self._breakers,
            open_session=self.open_session,
            conclude=conclude or self._conclude,
            learn=learn,
        )
        return await work.run()

    def open_session(self, account: ProviderAccount, clock: DatabaseClock) -> Session:
        """The account's session for the length of this run, opened anew if its secrets changed."""
        sealed = bytes(account.secrets)
        known = self._sessions.get(account.id)
        if known is not None and known[0] == sealed:
            known[2].clock = clock
            return known[1]
        provider = registry.provider_of(account.kind)
        limits: Mapping[str, float] = {
            **provider.limits_in(account.environment),
            **account.config.get("limits", {}),
        }
        gate = AccountGate(
            account.id, limits, limiter=self._limiter, breakers=self._breakers, clock=clock
        )
        session = provider.open(accounts.access_to(account), gate)
        self._sessions[account.id] = (sealed, session, gate)
        return session

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _with_own_connection, function, *args)


def run(
    seconds: float,
    *,
    kind: str | None = None,
    conclude: Conclude = conclusions.conclude,
    patience_seconds: float = _PATIENCE_SECONDS,
    keep_seat: Callable[[], None] | None = None,
) -> Counter[str]:
    """Run an engine to its end; counts of what was concluded."""
    engine = Engine(
        kind=kind, conclude=conclude, patience_seconds=patience_seconds, keep_seat=keep_seat
    )
    return asyncio.run(engine.run(seconds))


# In threads, with a database and without a loop ---------------------------------------------------


def _with_own_connection(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    finally:
        # Back to the pool; without one, closed: threads come and go with every run.
        connection.close()


def _sweep(keep_seat: Callable[[], None] | None, limits_are_shared: bool) -> dict[str, int]:
    if keep_seat is not None:
        keep_seat()
    counts = sweeps.run_once()
    alone = {} if limits_are_shared else {"limits_not_shared": 1}
    sweeps.finished(sweeps.RECONCILE, counts | alone)
    return counts


def _renew(holders: list[str]) -> int:
    with connection.cursor() as cur:
        return queue.renew(cur, holders)


def _lanes(kind: str | None) -> list[tuple[str, int]]:
    with connection.cursor() as cur:
        lanes = queue.lanes_with_work(cur)
    if kind is None:
        return lanes
    of_kind = ProviderAccount.objects.filter(kind=kind).values_list("pk", flat=True)
    wanted = {str(key) for key in of_kind}
    return [(lane, due) for lane, due in lanes if lane in wanted]


def _lease(lane: str, holder: str, limit: int, strikes: int) -> list[queue.Lease]:
    with connection.cursor() as cur:
        return queue.lease(cur, lane, holder=holder, limit=limit, strikes=strikes)


def _lanes_of(operation_ids: Sequence[UUID]) -> list[list[queue.Lease]]:
    """Leases that nobody holds, as a slice wants them, one list for each lane."""
    with connection.cursor() as cur:
        found = dossiers.load(cur, operation_ids)
    lanes: dict[str, list[queue.Lease]] = {}
    for key, dossier in found.items():
        lanes.setdefault(dossier.lane, []).append(
            queue.Lease(
                operation_id=key,
                lane=dossier.lane,
                fence=-1,
                purpose="settle" if dossier.facts.state == "UNKNOWN" else "recheck",
                since=dossier.facts.unknown_since,
                looks=0,
                failures=dossier.facts.failures,
                strikes=0,
            )
        )
    return list(lanes.values())


def _seconds_to_next(kind: str | None) -> float | None:
    with connection.cursor() as cur:
        return queue.seconds_to_next(cur)
