"""The reconciler's own processes on services of their own: to be killed and restarted at will."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from console.runner.postgres import EmbeddedPostgres
from console.runner.valkey import EmbeddedValkey
from tests.support.simulated_provider import SimulatedProvider

ROOT = Path(__file__).resolve().parents[2]

#: Celery, with one more folder of providers where one is named.
_CELERY = """
import os, sys
import reconcilers.providers
if os.environ.get("MORE_PROVIDERS"):
    reconcilers.providers.__path__.append(os.environ["MORE_PROVIDERS"])
from celery.__main__ import main
sys.argv = ["celery", *sys.argv[1:]]
main()
"""


class MachineRoom:
    """Postgres, Valkey, a simulated provider, and as many workers and beats as a test starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.postgres = EmbeddedPostgres(folder, throw_away=True)
        self.valkey = EmbeddedValkey(folder)
        self.simulator = SimulatedProvider(folder / "provider")
        self.more_providers = ""
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> "MachineRoom":
        self.folder.mkdir(exist_ok=True)
        for service in (self.postgres, self.valkey):
            service.prepare()
            self.start_service(service)
        (self.folder / "provider").mkdir(exist_ok=True)
        self.simulator.start()
        self.python("manage.py", "migrate", "--verbosity", "0", "--skip-checks")
        return self

    def stop(self) -> None:
        for name in list(self._running):
            if name not in {"postgres", "valkey"}:
                self.kill(name)
        self.simulator.stop()
        for name in ("valkey", "postgres"):
            if name in self._running:
                self.kill(name, signal.SIGQUIT if name == "postgres" else signal.SIGKILL)

    def start_service(self, service: EmbeddedPostgres | EmbeddedValkey) -> None:
        self._spawn(service.name, service.argv, os.environ.copy(), service.preexec)
        self.until(service.is_ready, f"{service.name} is ready", seconds=60)

    def start_worker(self, name: str = "worker") -> None:
        words = "-A console.celery --quiet worker --queues reconcile --pool threads"
        words += f" --concurrency 4 --hostname {name}@test --loglevel INFO"
        self._celery(name, f"{words} --without-gossip --without-mingle")

    def start_beat(self, name: str = "beat") -> None:
        words = "-A console.celery --quiet beat --scheduler celery.beat:Scheduler --pidfile="
        self._celery(name, words)

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self._running.pop(name)
        process.send_signal(how)
        process.wait(timeout=20)

    def is_alive(self, name: str) -> bool:
        return self._running[name].poll() is None

    def doubts(
        self, namespace: str, count: int, *, effect: bool = False, kind: str = "stripe"
    ) -> list[str]:
        """Keys of new operations in doubt."""
        words = ["-m", "tests.support.make_doubts", self.simulator.url, namespace, str(count)]
        printed = self.python(*words, *(["effect"] if effect else []), kind)
        keys: list[str] = json.loads(printed.strip().splitlines()[-1])
        return keys

    def states(self, keys: list[str]) -> list[str]:
        rows = self.sql("SELECT state FROM operations_operation WHERE idem_key = ANY(%s)", keys)
        return sorted(row[0] for row in rows)

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.postgres.url, autocommit=True) as connection:
            cursor = connection.execute(statement, list(parameters))
            return cursor.fetchall() if cursor.description else []

    def until(self, holds: Any, what: str, *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if holds():
                    return
            except psycopg.Error:
                pass
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}\n{self.logs()}"
            time.sleep(0.1)

    def logs(self) -> str:
        """The last words of every process."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.folder.glob("*.log"))
            if path.name not in {"postgres.log", "valkey.log"}
        )

    def python(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=ROOT,
            env=self.environment() | {"DATABASE_POOL_SIZE": "0"},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _celery(self, name: str, words: str) -> None:
        self._spawn(name, [sys.executable, "-c", _CELERY, *words.split()], self.environment(), None)

    def environment(self) -> dict[str, str]:
        """Where a process finds these services."""
        return os.environ | {
            "DATABASE_URL": self.postgres.url,
            "REDIS_URL": self.valkey.url,
            "DATABASE_POOL_SIZE": "8",
            "MORE_PROVIDERS": self.more_providers,
            "PYTHONPATH": str(ROOT),
        }

    def _spawn(self, name: str, argv: list[str], env: dict[str, str], preexec: Any) -> None:
        with (self.folder / f"{name}.log").open("ab") as out:
            self._running[name] = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=preexec,  # noqa: PLW1509 -- no threads here
                start_new_session=True,
            )
