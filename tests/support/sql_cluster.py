"""A Postgres as a customer has it: passwords, a primary and a standby, reached over TCP."""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from console.runner.postgres import EmbeddedPostgres
from console.runner.spawn import Privileges, own_by_nobody

_HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
_READY_SECONDS = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SqlCluster:
    """`start()` before use, `remove()` after it."""

    def __init__(self) -> None:
        # Postgres may have to run as somebody who cannot enter pytest's own folders.
        self._folder = Path(tempfile.mkdtemp(prefix="countersign-customer-"))
        self._postgres = EmbeddedPostgres(self._folder, throw_away=True)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "SqlCluster":
        self._postgres.prepare()
        data = self._postgres.data
        (data / "pg_hba.conf").write_text(_HBA)
        self._own(data)
        self.run()
        return self

    def standby(self) -> "SqlCluster":
        """A copy that stays in recovery. Restarts this one for it."""
        self.stop()
        copy = SqlCluster()
        shutil.copytree(self._postgres.data, copy._postgres.data)
        (copy._postgres.data / "standby.signal").touch()
        copy.start()
        self.run()
        return copy

    def run(self) -> None:
        settings = ("listen_addresses=127.0.0.1", f"port={self.port}")
        words = [word for setting in settings for word in ("-c", setting)]
        self._process = subprocess.Popen(
            [*self._postgres.argv, *words],
            preexec_fn=self._postgres.preexec,  # noqa: PLW1509 -- it only drops privileges
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                self.admin("postgres").close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "the cluster did not start"
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=20)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def admin(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=str(self._postgres.sockets),
            port=self.port,
            dbname=database,
            user="countersign",
            autocommit=True,
        )

    def _own(self, path: Path) -> None:
        if self._postgres.privileges is Privileges.NOBODY:
            own_by_nobody(path)
