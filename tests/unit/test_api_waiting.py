"""Waiting: register, read, wake; and what happens when a wake-up or the database is lost."""

import asyncio
import time
from uuid import uuid4

import pytest

from console.api import problems, waiting
from console.api.waiting import Waiting
from operations import waiters


class InLoop:
    """Runs blocking calls at once; `is_away` plays a database that cannot be reached."""

    is_away = False

    async def run(self, work, *arguments):
        await asyncio.sleep(0)
        if self.is_away:
            raise problems.unavailable()
        return work(*arguments)


class Table:
    """Stands in for the operations' versions and the rows of waiters."""

    def __init__(self, monkeypatch):
        self.versions = {}
        self.rows = set()
        self.registrations = 0
        monkeypatch.setattr(waiters, "register", self.register)
        monkeypatch.setattr(waiters, "versions", self.read)
        monkeypatch.setattr(waiters, "forget", self.forget)
        monkeypatch.setattr(waiters, "forget_expired", lambda: 0)

    def register(self, operations, *, process, seconds):
        self.registrations += 1
        self.rows |= set(operations)
        return self.read(operations)

    def read(self, operations):
        return {o: self.versions[o] for o in operations if o in self.versions}

    def forget(self, operations, *, process):
        self.rows -= set(operations)


@pytest.fixture
def table(monkeypatch):
    async def nowhere():
        raise OSError("no server to listen to")

    monkeypatch.setattr(waiting, "_connect", nowhere)
    monkeypatch.setattr(waiting, "_REREAD_SECONDS", 0.05)
    return Table(monkeypatch)


async def took(awaitable):
    began = time.perf_counter()
    await awaitable
    return time.perf_counter() - began


async def test_a_change_before_the_registration_is_seen_by_the_read_after_it(table):
    operation = uuid4()
    table.versions[operation] = 2
    waits = Waiting(InLoop())
    assert await took(waits.wait(operation, since=1, seconds=5)) < 1
    waits.stop()


async def test_a_wait_ends_with_its_time(table):
    operation = uuid4()
    table.versions[operation] = 1
    waits = Waiting(InLoop())
    assert 0.1 <= await took(waits.wait(operation, since=1, seconds=0.1)) < 1
    assert waits.count == 0
    waits.stop()


async def test_a_notification_wakes_everybody_who_has_another_version(table):
    operation = uuid4()
    table.versions[operation] = 1
    waits = Waiting(InLoop())
    tasks = [asyncio.create_task(waits.wait(operation, 1, 5)) for _ in range(50)]
    await asyncio.sleep(0.02)
    assert waits.count == 50
    waits._wake({operation: 1})
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in tasks)
    waits._wake({operation: 2})
    async with asyncio.timeout(1):
        await asyncio.gather(*tasks)
    waits.stop()


async def test_a_lost_wake_up_costs_one_reread(table):
    operation = uuid4()
    table.versions[operation] = 1
    waits = Waiting(InLoop())
    task = asyncio.create_task(waits.wait(operation, 1, 5))
    await asyncio.sleep(0.02)
    table.versions[operation] = 2
    async with asyncio.timeout(1):
        await task
    waits.stop()


async def test_many_who_come_at_once_register_together(table):
    operations = [uuid4() for _ in range(300)]
    table.versions = dict.fromkeys(operations, 1)
    waits = Waiting(InLoop())
    tasks = [asyncio.create_task(waits.wait(o, 1, 0.2)) for o in operations]
    await asyncio.gather(*tasks)
    assert table.rows <= set(operations)
    assert table.registrations < 10
    waits.stop()


async def test_rows_that_nobody_needs_are_dropped_and_those_of_others_stay(table):
    gone, stays = uuid4(), uuid4()
    table.versions = {gone: 1, stays: 1}
    waits = Waiting(InLoop())
    task = asyncio.create_task(waits.wait(stays, 1, 5))
    await waits.wait(gone, 1, 0.02)
    await asyncio.sleep(0.15)
    assert table.rows == {stays}
    waits.stop()
    await task


async def test_a_database_that_was_away_is_asked_again(table):
    operation = uuid4()
    table.versions[operation] = 1
    threads = InLoop()
    threads.is_away = True
    waits = Waiting(threads)
    task = asyncio.create_task(waits.wait(operation, 1, 5))
    await asyncio.sleep(0.1)
    assert table.rows == set()
    threads.is_away = False
    await asyncio.sleep(0.15)
    assert table.rows == {operation}
    table.versions[operation] = 2
    async with asyncio.timeout(1):
        await task
    waits.stop()


async def test_a_stop_answers_everybody(table):
    operation = uuid4()
    table.versions[operation] = 1
    waits = Waiting(InLoop())
    tasks = [asyncio.create_task(waits.wait(operation, 1, 30)) for _ in range(3)]
    await asyncio.sleep(0.02)
    waits.stop()
    async with asyncio.timeout(1):
        await asyncio.gather(*tasks)
    assert waits.count == 0


async def test_a_waiter_that_hangs_up_leaves_nothing_behind(table):
    operation = uuid4()
    table.versions[operation] = 1
    waits = Waiting(InLoop())
    task = asyncio.create_task(waits.wait(operation, 1, 30))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waits.count == 0
    waits.stop()
