"""Level 4: an effect in the customer's own Postgres, committed with its record or not at all."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import countersign
import psycopg
import pytest
from countersign import ClearedCall, Client
from countersign.atomic import DDL, OutboxRelay

from tests.support.scripted_console import ScriptedConsole, problem

ARGS = {"account": "acc_1", "amount": -500, "currency": "usd"}
SCHEMA = "sdk_atomic"


@pytest.fixture
def database(django_db_setup: None) -> Iterator[str]:
    """Connection parameters of a schema that plays the customer's database."""
    from django.conf import settings

    found = settings.DATABASES["default"]
    dsn = psycopg.conninfo.make_conninfo(
        host=found["HOST"],
        port=found["PORT"] or None,
        user=found["USER"],
        password=found["PASSWORD"],
        dbname=found["NAME"],
        options=f"-c search_path={SCHEMA}",
    )
    with psycopg.connect(dsn) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute(DDL)
        connection.execute("CREATE TABLE line (account text, amount bigint)")
    yield dsn
    with psycopg.connect(dsn) as connection:
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture
def console() -> ScriptedConsole:
    return ScriptedConsole()


@pytest.fixture
def client(console: ScriptedConsole, tmp_path: Path) -> Iterator[Client]:
    with Client(
        "http://console", "key", transport=console.transport, spool_dir=tmp_path, report_seconds=0
    ) as client:
        yield client


def adjust(client: Client, connection: psycopg.Connection[Any], **more: Any) -> Any:
    with connection.cursor() as cursor:

        def effect(cleared: ClearedCall) -> dict[str, Any]:
            args = cleared.args
            cursor.execute("INSERT INTO line VALUES (%s, %s)", (args["account"], args["amount"]))
            return {"line": cleared.idem_key[:8]}

        call: dict[str, Any] = {
            "step": 1,
            "tool_call_id": "c1",
            "tool": "ledger.adjust",
            "args": ARGS,
        }
        call |= {"effect": effect} | more
        return client.atomic(cursor, "run_1", **call)


def lines(database: str) -> int:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT count(*) FROM line").fetchone()
        assert row is not None
        return int(row[0])


def test_it_commits_once_and_replays_the_result(client: Client, database: str) -> None:
    with psycopg.connect(database) as connection:
        first = adjust(client, connection)
    with psycopg.connect(database) as connection:
        again = adjust(client, connection)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.result == first.result == {"line": first.idem_key[:8]}
    assert lines(database) == 1


def test_a_crash_before_the_commit_leaves_nothing(client: Client, database: str) -> None:
    connection = psycopg.connect(database)
    adjust(client, connection)
    connection.close()  # as a dying process does
    assert lines(database) == 0
    with psycopg.connect(database) as connection:
        assert not adjust(client, connection).replayed
    assert lines(database) == 1


def test_an_effect_that_fails_leaves_no_guard_behind(client: Client, database: str) -> None:
    def broken(cleared: ClearedCall) -> None:
        raise ZeroDivisionError

    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO line VALUES ('other work', 1)")
        with pytest.raises(ZeroDivisionError):
            adjust(client, connection, effect=broken)
        # The caller's own work in the transaction is not lost with it.
    assert lines(database) == 1
    with psycopg.connect(database) as connection:
        assert not adjust(client, connection).replayed


def test_other_arguments_under_the_same_call_are_refused(client: Client, database: str) -> None:
    with psycopg.connect(database) as connection:
        adjust(client, connection)
    with psycopg.connect(database) as connection, pytest.raises(countersign.ArgsConflict):
        adjust(client, connection, args=ARGS | {"amount": -501})
    assert lines(database) == 1


def test_a_second_process_waits_and_finds_the_result(client: Client, database: str) -> None:
    found = []
    first = psycopg.connect(database)
    adjust(client, first)

    def second() -> None:
        with psycopg.connect(database) as connection:
            found.append(adjust(client, connection).replayed)

    other = threading.Thread(target=second)
    other.start()
    other.join(0.3)
    assert other.is_alive(), "it waits for the first transaction"
    first.commit()
    first.close()
    other.join(10)
    assert found == [True]
    assert lines(database) == 1


def test_the_relay_tells_each_call_once(
    client: Client, console: ScriptedConsole, database: str
) -> None:
    for step in (1, 2):
        with psycopg.connect(database) as connection:
            adjust(client, connection, step=step)
    relay = OutboxRelay(client, lambda: psycopg.connect(database))
    assert relay.run_once() == 2
    assert relay.run_once() == 0
    (records,) = console.told("records")
    assert [record["type"] for record in records] == ["TOOL_INVOKED", "TOOL_COMMITTED"] * 2
    assert records[0]["args"] == ARGS
    assert records[1]["result"] == {"line": records[1]["idem_key"][:8]}
    assert len({record["record_id"] for record in records}) == 4


def test_the_relay_tells_it_again_where_the_console_refused_it(
    client: Client, console: ScriptedConsole, database: str
) -> None:
    with psycopg.connect(database) as connection:
        adjust(client, connection)
    relay = OutboxRelay(client, lambda: psycopg.connect(database))
    away = problem(503, "UNAVAILABLE", retryable=True)
    console.on("records", problem(422, "VALIDATION_ERROR"), away, (200, {"accepted": 2}))
    with pytest.raises(countersign.InvalidCall):
        relay.run_once()
    with pytest.raises(countersign.ConsoleUnavailable):
        relay.run_once()
    assert client.spooled == 0
    assert relay.run_once() == 1
