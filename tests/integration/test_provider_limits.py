"""Turns and circuit breakers, shared through Redis and without it."""

import asyncio
import time
from datetime import UTC, datetime
from itertools import pairwise
from uuid import uuid4

import pytest
import redis
from django.conf import settings

from reconcilers.allowances import used_by
from reconcilers.breakers import FAILURES_TO_OPEN, Breakers
from reconcilers.limits import Bucket, Limiter, TooBusy
from reconcilers.providers.base import ProviderError
from reconcilers.turns import AccountGate, DatabaseClock

NOWHERE = "redis://127.0.0.1:9/0"


async def times_of(limiters, bucket, rate, count):
    """When each of `count` turns came, taken in parallel from several limiters."""
    began = time.monotonic()
    moments = []

    async def one(limiter):
        await limiter.turn(Bucket(bucket, rate))
        moments.append(time.monotonic() - began)

    await asyncio.gather(*(one(limiters[n % len(limiters)]) for n in range(count)))
    return sorted(moments)


class TestLimiter:
    async def test_turns_are_paced_and_shared(self):
        limiters, bucket = [Limiter(settings.REDIS_URL) for _ in range(3)], uuid4().hex
        shared = redis.Redis.from_url(settings.REDIS_URL)
        try:
            moments = await times_of(limiters, bucket, 50.0, 51)
            seconds, micros = shared.time()
            free_at = int(shared.get(f"countersign:turns:{bucket}"))
        finally:
            shared.close()
            for limiter in limiters:
                await limiter.close()
        # A busy machine makes turns late, never early: no turn comes before its own slot.
        assert all(moment > number / 50 - 0.005 for number, moment in enumerate(moments))
        # And nothing was reserved beyond the turns that were taken.
        assert free_at - (seconds * 1_000_000 + micros) <= 1_000_000 * Bucket("", 50.0).interval

    async def test_a_wait_that_is_too_long_is_refused_and_reserves_nothing(self):
        limiter, bucket = Limiter(settings.REDIS_URL), uuid4().hex
        try:
            await limiter.turn(Bucket(bucket, 0.1))
            with pytest.raises(TooBusy) as busy:
                await limiter.turn(Bucket(bucket, 0.1), longest_wait=1.0)
            assert 1 < busy.value.seconds < 11
            with pytest.raises(TooBusy) as again:
                await limiter.turn(Bucket(bucket, 0.1), longest_wait=1.0)
            assert again.value.seconds <= busy.value.seconds
        finally:
            await limiter.close()

    async def test_a_high_limit_takes_one_round_trip_for_many_turns(self):
        limiter = Limiter(settings.REDIS_URL)
        try:
            moments = await times_of([limiter], uuid4().hex, 1000.0, 200)
        finally:
            await limiter.close()
        assert moments[-1] > 0.19

    async def test_a_request_counts_against_every_bucket_it_names(self):
        limiter = Limiter(settings.REDIS_URL)
        narrow, wide = Bucket(uuid4().hex, 10.0), Bucket(uuid4().hex, 1000.0)
        try:
            began = time.monotonic()
            for _ in range(4):
                await limiter.turn(wide, narrow)
            assert time.monotonic() - began > 0.28
        finally:
            await limiter.close()

    async def test_a_process_that_was_held_up_sends_no_burst(self):
        limiter, bucket = Limiter(settings.REDIS_URL), Bucket(uuid4().hex, 20.0)
        moments = []

        async def one():
            await limiter.turn(bucket)
            moments.append(time.monotonic())

        try:
            tasks = [asyncio.create_task(one()) for _ in range(8)]
            await asyncio.sleep(0.05)
            time.sleep(0.4)  # noqa: ASYNC251 -- the very stall
            await asyncio.gather(*tasks)
        finally:
            await limiter.close()
        assert min(later - earlier for earlier, later in pairwise(moments)) > 0.045

    async def test_retry_after_holds_everybody_back(self):
        one, other = Limiter(settings.REDIS_URL), Limiter(settings.REDIS_URL)
        bucket = uuid4().hex
        try:
            await one.push_back(bucket, 0.4)
            began = time.monotonic()
            await other.turn(Bucket(bucket, 1000.0))
            assert time.monotonic() - began > 0.35
        finally:
            await one.close()
            await other.close()

    async def test_without_redis_it_goes_on_cautiously_and_says_so(self, caplog):
        limiter = Limiter(NOWHERE)
        try:
            moments = await times_of([limiter], "b", 40.0, 6)
            assert not limiter.shared
        finally:
            await limiter.close()
        assert moments[-1] > 0.45
        assert "Redis does not answer" in caplog.text


class TestBreaker:
    def test_it_opens_after_failures_in_a_row_and_lets_one_probe_through(self):
        account = uuid4().hex
        here, there = Breakers(settings.REDIS_URL), Breakers(settings.REDIS_URL)
        assert here.ask(account).state == "closed"
        for _ in range(FAILURES_TO_OPEN - 1):
            here.failed(account)
        assert there.ask(account).state == "closed"
        there.failed(account)
        door = here.ask(account)
        assert door.state == "open"
        assert 0 < door.seconds <= 2
        assert here.state(account) == "open"
        time.sleep(door.seconds + 0.05)
        assert here.ask(account).state == "probe"
        assert there.ask(account).state == "open"
        here.answered(account)
        assert there.ask(account).state == "closed"
        here.close()
        there.close()

    def test_a_failed_probe_opens_it_for_longer(self):
        account, breakers = uuid4().hex, Breakers(settings.REDIS_URL)
        for _ in range(FAILURES_TO_OPEN + 1):
            breakers.failed(account)
        assert 2 < breakers.ask(account).seconds <= 4
        for _ in range(20):
            breakers.failed(account)
        assert breakers.ask(account).seconds <= 30
        breakers.close()

    def test_an_answer_in_between_starts_the_count_again(self):
        account, breakers = uuid4().hex, Breakers(settings.REDIS_URL)
        for _ in range(3):
            for _ in range(FAILURES_TO_OPEN - 1):
                breakers.failed(account)
            assert breakers.is_suspect(account)
            breakers.answered(account)
        assert breakers.ask(account).state == "closed"
        breakers.close()

    def test_without_redis_each_process_counts_for_itself(self):
        account, breakers = uuid4().hex, Breakers(NOWHERE)
        for _ in range(FAILURES_TO_OPEN):
            breakers.failed(account)
        assert breakers.ask(account).state == "open"
        breakers.answered(account)
        assert breakers.ask(account).state == "closed"
        assert breakers.state(account) == "unknown"
        breakers.close()


class TestGate:
    @pytest.fixture
    async def gate(self):
        limiter, breakers = Limiter(settings.REDIS_URL), Breakers(settings.REDIS_URL)
        clock = DatabaseClock.just_read(datetime.now(UTC))
        yield AccountGate(
            uuid4(),
            {"account": 1000.0, "search": 0.01, "*": 1000.0},
            limiter=limiter,
            breakers=breakers,
            clock=clock,
        )
        await limiter.close()
        breakers.close()

    async def test_a_busy_endpoint_does_not_hold_up_another(self, gate):
        await gate.turn("search")
        with pytest.raises(ProviderError, match=r"our own limit of 0\.01 requests a second"):
            await gate.turn("search")
        await gate.turn("payment_intents")

    async def test_a_429_is_obeyed_and_does_not_open_the_circuit(self, gate):
        for _ in range(10):
            await gate.failed("charges", ProviderError("429", status=429, retry_after_seconds=0.3))
        began = time.monotonic()
        await gate.turn("charges")
        assert time.monotonic() - began > 0.25
        assert gate._breakers.ask(gate._account).state == "closed"

    async def test_outages_open_the_circuit_and_refusals_do_not(self, gate):
        for _ in range(10):
            await gate.failed("charges", ProviderError("403", status=403))
        assert gate._breakers.ask(gate._account).state == "closed"
        for _ in range(FAILURES_TO_OPEN):
            await gate.failed("charges", ProviderError("no answer"))
        assert gate._breakers.ask(gate._account).state == "open"

    def test_the_databases_clock_is_carried_on_and_never_ahead(self):
        read = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)
        clock = DatabaseClock.just_read(read)
        time.sleep(0.05)
        assert 0.04 < (clock.now() - read).total_seconds() < 0.5


class TestAllowance:
    def gate(self, whose, limiter, breakers, **limits):
        clock = DatabaseClock.just_read(datetime.now(UTC))
        return AccountGate(whose, limits, limiter=limiter, breakers=breakers, clock=clock)

    async def test_reads_are_counted_by_account_and_shared(self):
        account, other, breakers = uuid4(), uuid4(), Breakers(settings.REDIS_URL)
        for _ in range(2):
            limiter = Limiter(settings.REDIS_URL)
            gate = self.gate(account, limiter, breakers, account=1000.0)
            for _ in range(5):
                await gate.turn("charges")
            await limiter.close()
        breakers.close()
        known = [str(account), str(other)]
        assert used_by(settings.REDIS_URL, known) == {str(account): 10, str(other): 0}

    async def test_beyond_the_months_reads_nobody_asks(self):
        account, breakers = uuid4(), Breakers(settings.REDIS_URL)
        limiter = Limiter(settings.REDIS_URL)
        gate = self.gate(account, limiter, breakers, account=1000.0, month=3)
        for _ in range(3):
            await gate.turn("charges")
        with pytest.raises(ProviderError, match="the 3 reads that this account may use") as used:
            await gate.turn("charges")
        assert used.value.retry_after_seconds == 900
        await limiter.close()
        later = Limiter(settings.REDIS_URL)
        with pytest.raises(ProviderError, match="are used up"):
            await self.gate(account, later, breakers, month=3).turn("charges")
        await later.close()
        breakers.close()

    async def test_without_redis_nothing_is_refused(self):
        limiter, breakers = Limiter(NOWHERE), Breakers(NOWHERE)
        await self.gate(uuid4(), limiter, breakers, month=3).turn("charges")
        await limiter.close()
        breakers.close()
        assert used_by(NOWHERE, ["a"]) == {}
