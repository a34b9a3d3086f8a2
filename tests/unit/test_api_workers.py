"""What a failed call means: nothing stored, stored perhaps, or a defect."""

import asyncio
import threading
import time

import psycopg
import pytest
from django.db import IntegrityError, OperationalError

from console.api import connection, workers
from console.api.problems import Problem
from console.api.workers import Workers
from operations.errors import DomainError


class Database:
    """Stands in for a worker's connection."""

    def __init__(self):
        self.commits = 0
        self.is_commit_uncertain = False
        self.has_been_open = True
        self.broken = False
        self.closed = 0

    def begin_call(self):
        self.commits, self.is_commit_uncertain, self.broken = 0, False, False

    def is_lost(self, error):
        return self.broken

    def close(self):
        self.closed += 1


@pytest.fixture
def database(monkeypatch):
    fake = Database()
    monkeypatch.setattr(workers, "connections", {"default": fake})
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return fake


def raised(cause, as_class=OperationalError):
    error = as_class(str(cause))
    error.__cause__ = cause
    return error


def failing(database, *errors, broken=False):
    """A call that fails with these errors in turn, then answers."""
    left = list(errors)

    def work():
        if left:
            database.broken = broken
            raise left.pop(0)
        return "answer"

    return work


def refused(work):
    with pytest.raises(Problem) as caught:
        workers.call(work)
    return caught.value


def test_a_domain_error_becomes_its_problem(database):
    problem = refused(failing(database, DomainError("ATTEMPT_IN_FLIGHT", idem_key="k")))
    assert (problem.status, problem.code, problem.retryable) == (409, "ATTEMPT_IN_FLIGHT", True)
    assert problem.extra["operation_url"].endswith("/go/k")


def test_a_connection_that_broke_is_replaced_and_the_call_repeated(database):
    lost = raised(psycopg.OperationalError("gone"))
    assert workers.call(failing(database, lost, broken=True)) == "answer"
    assert database.closed == 1


def test_a_deadlock_is_tried_again_and_then_given_up(database):
    deadlock = raised(psycopg.errors.DeadlockDetected())
    assert workers.call(failing(database, deadlock, deadlock)) == "answer"
    assert refused(failing(database, *[deadlock] * 4)).code == "UNAVAILABLE"


def test_a_database_that_cannot_be_reached_is_unavailable_at_once(database):
    database.has_been_open = False
    calls = []

    def work():
        calls.append(1)
        database.broken = True
        raise raised(psycopg.OperationalError("refused"))

    problem = refused(work)
    assert (problem.status, problem.code, problem.retryable) == (503, "UNAVAILABLE", True)
    assert problem.retry_after_seconds == 1
    assert calls == [1]


@pytest.mark.parametrize("failure", ["during the commit", "after a commit"])
def test_a_failure_around_a_commit_is_uncertain_and_never_repeated(database, failure):
    calls = []

    def work():
        calls.append(1)
        database.broken = True
        database.is_commit_uncertain = failure == "during the commit"
        database.commits = int(failure == "after a commit")
        raise raised(psycopg.OperationalError("gone"))

    problem = refused(work)
    assert (problem.status, problem.code, problem.retryable) == (503, "OUTCOME_UNCERTAIN", True)
    assert calls == [1]


def test_a_timeout_of_the_database_stored_nothing(database):
    cancelled = raised(psycopg.errors.QueryCanceled())
    assert refused(failing(database, cancelled)).code == "UNAVAILABLE"


def test_a_defect_stays_a_defect(database):
    with pytest.raises(IntegrityError):
        workers.call(failing(database, raised(psycopg.errors.NotNullViolation(), IntegrityError)))
    with pytest.raises(OperationalError):
        workers.call(failing(database, raised(psycopg.errors.ProgramLimitExceeded())))
    with pytest.raises(KeyError):
        workers.call(failing(database, KeyError("x")))


async def test_calls_beyond_the_threads_wait_and_all_are_answered(monkeypatch):
    monkeypatch.setattr(connection, "adopt", lambda _: None)
    monkeypatch.setattr(workers, "call", lambda work, *arguments: work(*arguments))
    pool = Workers("test", 3)
    seen = set()

    def work(number):
        seen.add(threading.current_thread().name)
        time.sleep(0.001)
        if number % 10 == 9:
            raise ValueError(number)
        return number

    answers = await asyncio.gather(*(pool.run(work, n) for n in range(200)), return_exceptions=True)
    assert [a for a in answers if isinstance(a, int)] == [n for n in range(200) if n % 10 != 9]
    assert len(seen) <= 3
    assert pool.waiting == 0
    pool.stop()


async def test_a_caller_that_gives_up_does_not_stop_the_call(monkeypatch):
    monkeypatch.setattr(connection, "adopt", lambda _: None)
    monkeypatch.setattr(workers, "call", lambda work, *arguments: work(*arguments))
    pool = Workers("test", 1)
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work():
        begun.set()
        may_end.wait(5)
        ended.set()

    task = asyncio.create_task(pool.run(work))
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()
    assert await asyncio.to_thread(ended.wait, 5)
    assert await pool.run(lambda: "next") == "next"
    pool.stop()
