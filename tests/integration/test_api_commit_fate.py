"""A worker's connection against a real server that dies at the worst moments."""

import threading
import time

import psycopg
import pytest
from django.db import connections, transaction

from console.api import connection, workers
from console.api.problems import Problem

_SCRATCH = """
CREATE TABLE IF NOT EXISTS scratch_fate (id int PRIMARY KEY);
CREATE OR REPLACE FUNCTION scratch_slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(5); RETURN NULL; END $$;
CREATE OR REPLACE FUNCTION scratch_no() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation'; END $$;
"""
_AT_COMMIT = """
DROP TRIGGER IF EXISTS at_commit ON scratch_fate;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON scratch_fate DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION {};
"""


@pytest.fixture
def server(django_db_setup, django_db_blocker):
    """The test database's server, outside Django, with a scratch table."""
    with django_db_blocker.unblock():
        parameters = connections["default"].get_connection_params()
        for name in ("cursor_factory", "context", "prepare_threshold"):
            parameters.pop(name, None)
        with psycopg.connect(**parameters, autocommit=True) as other:
            other.execute(_SCRATCH)
            yield other
            other.execute("DROP TABLE scratch_fate")
            other.execute("DROP FUNCTION scratch_slow(), scratch_no()")


def in_worker(work):
    """Run a call as a worker's thread does; returns its answer or its exception."""
    found = []

    def run():
        adopted = connection.adopt()
        try:
            found.append(workers.call(work, adopted))
        except BaseException as error:  # noqa: BLE001 - handed to the test
            found.append(error)
        finally:
            adopted.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    return found[0]


def insert(number):
    with transaction.atomic(), connections["default"].cursor() as cur:
        cur.execute("INSERT INTO scratch_fate VALUES (%s)", [number])


def kill_soon(server, query_part):
    """Terminate the backend that runs such a query, as soon as it is seen."""

    def run():
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            killed = server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s"
                " AND state = 'active' AND pid <> pg_backend_pid()",
                [f"{query_part}%"],
            ).fetchall()
            if killed:
                return
            time.sleep(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_server_that_dies_during_the_commit_leaves_its_fate_unknown(server):
    server.execute(_AT_COMMIT.format("scratch_slow()"))
    killer = kill_soon(server, "COMMIT")
    problem = in_worker(lambda _: insert(1))
    killer.join()
    assert isinstance(problem, Problem), problem
    assert (problem.status, problem.code, problem.retryable) == (503, "OUTCOME_UNCERTAIN", True)


def test_a_commit_that_is_refused_is_no_doubt_but_a_refusal(server):
    server.execute(_AT_COMMIT.format("scratch_no()"))
    error = in_worker(lambda _: insert(2))
    assert not isinstance(error, Problem)
    assert server.execute("SELECT count(*) FROM scratch_fate").fetchone() == (0,)


def test_a_connection_that_dies_in_a_statement_is_replaced_and_the_call_repeated(server):
    tries = []

    def work(_):
        tries.append(1)
        with transaction.atomic(), connections["default"].cursor() as cur:
            cur.execute("INSERT INTO scratch_fate VALUES (3)")
            if len(tries) == 1:
                cur.execute("SELECT pg_sleep(5)")
        return "stored"

    killer = kill_soon(server, "SELECT pg_sleep")
    assert in_worker(work) == "stored"
    killer.join()
    assert len(tries) == 2
    assert server.execute("SELECT count(*) FROM scratch_fate").fetchone() == (1,)


def test_a_connection_that_died_while_idle_is_noticed_before_anything_is_sent(server):
    def work(adopted):
        insert(4)
        return adopted.connection.info.backend_pid

    def twice(adopted):
        first = work(adopted)
        server.execute("SELECT pg_terminate_backend(%s)", [first])
        time.sleep(0.3)
        adopted.begin_call()
        assert adopted.connection is None
        return "replaced"

    assert in_worker(twice) == "replaced"


def test_a_hook_that_fails_after_the_commit_does_not_make_it_a_failure(server, caplog):
    def work(_):
        with transaction.atomic(), connections["default"].cursor() as cur:
            cur.execute("INSERT INTO scratch_fate VALUES (5)")
            transaction.on_commit(lambda: 1 / 0)
        return "stored"

    assert in_worker(work) == "stored"
    assert "ZeroDivisionError" in caplog.text
    assert server.execute("SELECT count(*) FROM scratch_fate").fetchone() == (1,)


def test_a_statement_that_waits_too_long_for_a_lock_stored_nothing(server):
    server.execute("INSERT INTO scratch_fate VALUES (6)")
    with server.transaction():
        server.execute("SELECT FROM scratch_fate WHERE id = 6 FOR UPDATE")

        def work(_):
            with transaction.atomic(), connections["default"].cursor() as cur:
                cur.execute("SET LOCAL lock_timeout = '100ms'")
                cur.execute("SELECT FROM scratch_fate WHERE id = 6 FOR UPDATE")

        problem = in_worker(work)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.retry_after_seconds) == ("UNAVAILABLE", 1)
