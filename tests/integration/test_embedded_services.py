"""Embedded Postgres and Valkey: they start, keep what they hold over SIGKILL, leave nothing."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psycopg
import pytest
import redis

from console.runner.postgres import DataOfAnotherVersion, EmbeddedPostgres
from console.runner.valkey import EmbeddedValkey


@contextmanager
def running(service):
    service.prepare()
    process = subprocess.Popen(
        service.argv,
        preexec_fn=service.preexec,  # noqa: PLW1509 -- the test starts nothing while threads run
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while not service.is_ready():
            assert process.poll() is None, f"{service.name} died"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(service.stop_signal)
        process.wait(timeout=20)


def test_postgres_keeps_what_was_committed_before_it_was_killed(tmp_path):
    postgres = EmbeddedPostgres(tmp_path)
    with running(postgres) as process, psycopg.connect(postgres.url) as connection:
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept VALUES (7)")
        connection.commit()
        process.kill()
        process.wait()
        connection.close()
    with running(postgres), psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT id FROM kept").fetchall() == [(7,)]
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_postgres_works_in_a_folder_whose_path_is_too_long_for_a_socket(tmp_path):
    deep = tmp_path / ("a folder with blanks " * 6)
    deep.mkdir()
    postgres = EmbeddedPostgres(deep, throw_away=True)
    with running(postgres), psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert len(str(postgres.sockets)) < 90


def test_postgres_is_open_to_its_owner_alone(tmp_path):
    postgres = EmbeddedPostgres(tmp_path, throw_away=True)
    with running(postgres), psycopg.connect(postgres.url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    assert postgres.sockets.stat().st_mode & 0o077 == 0


def test_data_of_another_major_version_is_refused_by_name(tmp_path):
    (tmp_path / "postgres-9").mkdir()
    with pytest.raises(DataOfAnotherVersion, match="postgres-9"):
        EmbeddedPostgres(tmp_path).prepare()


def test_valkey_keeps_hints_over_a_restart_and_evicts_none(tmp_path):
    valkey = EmbeddedValkey(tmp_path)
    with running(valkey), redis.Redis.from_url(valkey.url) as client:
        client.set("hint", "here")
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    with running(valkey), redis.Redis.from_url(valkey.url) as client:
        assert client.get("hint") == b"here"


def test_valkey_wants_its_password(tmp_path):
    valkey = EmbeddedValkey(tmp_path)
    with (
        running(valkey),
        redis.Redis(port=valkey.port) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()
    assert (valkey.folder / "valkey.conf").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a parent's death")
@pytest.mark.parametrize("name", ["EmbeddedPostgres", "EmbeddedValkey"])
def test_a_service_does_not_outlive_whoever_started_it(tmp_path, name):
    starter = (
        "import subprocess, sys, pathlib, time;"
        "from console.runner.postgres import EmbeddedPostgres;"
        "from console.runner.valkey import EmbeddedValkey;"
        f"service = {name}(pathlib.Path(sys.argv[1])); service.prepare();"
        "child = subprocess.Popen(service.argv, preexec_fn=service.preexec,"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)\n"
        "while not service.is_ready(): time.sleep(0.02)\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 10
    while _alive(child):
        assert time.monotonic() < deadline, f"{name} is still there"
        time.sleep(0.05)


def _alive(pid):
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        # A container's first process may never reap it: a zombie is dead too.
        return stat.read().rpartition(")")[2].split()[0] != "Z"
