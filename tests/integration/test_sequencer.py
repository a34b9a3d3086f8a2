"""Sealing by snapshot: whatever order transactions commit in, no event is missed or reordered."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from operations.ledger import sequencer, soundness
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.records import key_of, record, report, runtime

pytestmark = pytest.mark.django_db

_EVENT = """INSERT INTO operations_event (environment, namespace, type, actor, data)
            VALUES ('test', 'default', %s, 'system:test', '{}') RETURNING id"""


@pytest.fixture(autouse=True)
def _from_the_beginning() -> Iterator[None]:
    with connection.cursor() as cur:
        cur.execute("DELETE FROM operations_sequencerstate")
    soundness.forget()
    yield
    with connection.cursor() as cur:
        cur.execute("DELETE FROM operations_sequencerstate")


def database_url() -> str:
    """The test's own database, for connections and processes of their own."""
    parts = urlsplit(settings.DATABASE_URL)
    return urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(database_url())


def event(open_transaction: psycopg.Connection[Any], type_: str = "test.fact") -> int:
    row = open_transaction.execute(_EVENT, (type_,)).fetchone()
    assert row is not None
    return int(row[0])


def sealed() -> list[tuple[int, int]]:
    with connection.cursor() as cur:
        cur.execute("SELECT seq, event_id FROM operations_sealedevent ORDER BY seq")
        return list(cur.fetchall())


def test_a_transaction_that_stays_open_holds_nobody_up_and_is_not_missed() -> None:
    with connect() as slow, connect() as quick:
        early = event(slow)
        late = event(quick)
        quick.commit()
        assert sequencer.run_once() == 1
        assert sealed() == [(1, late)]
        assert sequencer.run_once() == 0
        slow.commit()
        assert sequencer.run_once() == 1
        assert sealed() == [(1, late), (2, early)]


def test_what_was_rolled_back_leaves_no_gap() -> None:
    with connect() as one, connect() as other:
        event(one)
        kept = event(other)
        one.rollback()
        other.commit()
    assert sequencer.run_once() == 1
    assert sealed() == [(1, kept)]


def test_transactions_in_every_order_of_commits_are_all_sealed_once() -> None:
    """Many overlapping transactions, ended in random order, with sealing in between."""
    shuffle = random.Random(7)
    committed: set[int] = set()
    with ThreadPoolExecutor(1) as seal_elsewhere:
        for _ in range(8):
            transactions = [connect() for _ in range(6)]
            events = {id(t): [event(t) for _ in range(shuffle.randint(1, 3))] for t in transactions}
            shuffle.shuffle(transactions)
            for transaction in transactions:
                if shuffle.random() < 0.2:
                    transaction.rollback()
                else:
                    transaction.commit()
                    committed.update(events[id(transaction)])
                transaction.close()
                if shuffle.random() < 0.5:
                    seal_elsewhere.submit(_seal_and_hang_up).result()
    sequencer.run_once()
    rows = sealed()
    assert [seq for seq, _ in rows] == list(range(1, len(committed) + 1))
    assert {found for _, found in rows} == committed


def _seal_and_hang_up() -> None:
    try:
        sequencer.run_once()
    finally:
        connection.close()


def test_an_operations_events_stand_in_the_order_of_its_versions() -> None:
    """Writers race while the sequencer seals as fast as it can."""
    stop = threading.Event()

    def seal() -> None:
        try:
            while not stop.is_set():
                sequencer.run_once()
        finally:
            connection.close()

    def write(number: int) -> None:
        try:
            who = runtime()
            for turn in range(6):
                call = f"c{(number + turn) % 3}"
                type_ = ("TOOL_INVOKED", "TOOL_UNKNOWN", "TOOL_COMMITTED")[turn % 3]
                report(who, record(type_, call=call, attempt={"id": f"{number}"}))
        finally:
            connection.close()

    runtime()
    with ThreadPoolExecutor(5) as pool:
        sealing = pool.submit(seal)
        for writing in [pool.submit(write, number) for number in range(4)]:
            writing.result()
        stop.set()
        sealing.result()
    sequencer.run_once()
    call_command("check_ledger")
    with connection.cursor() as cur:
        cur.execute(
            "SELECT (SELECT count(*) FROM operations_event) = "
            "(SELECT count(*) FROM operations_sealedevent)"
        )
        assert cur.fetchone()[0]


def test_only_one_seals_at_a_time() -> None:
    with connect() as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (sequencer._LOCK,))
        with connect() as writer:
            event(writer)
        assert sequencer.run_once() == 0
    assert sequencer.run_once() == 1


def test_after_a_restore_into_another_cluster_everything_is_sealed_once() -> None:
    """There, transaction numbers begin anew: those of the old rows lie in the future."""
    with connect() as writer:
        before = event(writer)
    sequencer.run_once()
    with connect() as writer:
        between = event(writer)
    with connection.cursor() as cur:
        future = "99999999999:99999999999:"
        cur.execute("UPDATE operations_sequencerstate SET snapshot = %s", [future])
    assert sequencer.run_once() == 1
    with connect() as writer:
        after = event(writer)
    assert sequencer.run_once() == 1
    assert sealed() == [(1, before), (2, between), (3, after)]


_MOVE_UNSAID = """UPDATE operations_operation
    SET state = 'UNKNOWN', waiting_on = 'look', lease_expires_at = NULL"""


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (_MOVE_UNSAID, "state INVOKED"),
        ("UPDATE operations_operation SET version = version + 1", "version 3"),
        ("DELETE FROM operations_event WHERE version = 1", "events"),
        ("DELETE FROM operations_sealedevent WHERE seq = 1", "entry #1"),
        ("DELETE FROM operations_standing", "open table"),
    ],
)
def test_check_ledger_sees_what_does_not_fit(
    damage: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report(runtime(), record())
    sequencer.run_once()
    call_command("check_ledger")
    with connection.cursor() as cur:
        cur.execute("SET session_replication_role = replica")
        cur.execute(damage)
        cur.execute("SET session_replication_role = DEFAULT")
    with pytest.raises(CommandError, match="differences"):
        call_command("check_ledger")
    assert word in capsys.readouterr().out


def test_the_command_seals_sweeps_outlives_its_connection_and_ends_when_told() -> None:
    report(runtime(), record())
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE operations_operation SET lease_expires_at = '2020-01-01', waiting_until = NULL"
        )
    environment = os.environ | {"DATABASE_URL": database_url()}
    process = subprocess.Popen([sys.executable, "manage.py", "sequencer"], env=environment)
    try:
        wait_for("SELECT count(*) = 3 FROM operations_sealedevent")  # recorded, invoked, in_doubt
        wait_for("SELECT swept_at IS NOT NULL FROM operations_sequencerstate")
        with connection.cursor() as cur:
            cur.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        report(runtime(), record("TOOL_COMMITTED"))
        wait_for("SELECT count(*) = 4 FROM operations_sealedevent")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
    with connection.cursor() as cur:
        cur.execute("SELECT state FROM operations_operation WHERE idem_key = %s", [key_of()])
        assert cur.fetchone() == ("COMMITTED",)


def wait_for(question: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with connection.cursor() as cur:
            cur.execute(question)
            row = cur.fetchone()
        if row and row[0]:
            return
        time.sleep(0.05)
    raise AssertionError(f"never true: {question}")
