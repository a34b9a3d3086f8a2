"""The real product, as `make run` starts it, for tests that look at it from outside.

Fixtures: ``live_product`` (one for all tests of a worker; do not kill its parts) and
``own_product`` (one for a module, to kill and restart at will). Neither shares a database, a
process or a setting with the test session.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from console.runner.datadir import DataDir, Instance

ROOT = Path(__file__).resolve().parents[2]
_BOOT_SECONDS = 120
# What the test session sets for itself, and a developer may have set.
_NOT_INHERITED = (
    "COUNTERSIGN_", "DATABASE_", "REDIS_", "SECRET_KEY", "DATA_DIR", "DEMO", "PORT",
    "DJANGO_", "PYTEST_", "WEB_CONCURRENCY", "WORKER_CONCURRENCY", "LOG_LEVEL",
)  # fmt: skip


class ProductFailed(AssertionError):
    """The product, or a command run against it, did not do what it was started for."""


class Product:
    """One instance in its own DATA_DIR, on a free port."""

    def __init__(self, data_dir: Path, root: Path = ROOT) -> None:
        self.data = DataDir(data_dir)
        self.root = root
        self._process: subprocess.Popen[str] | None = None
        self._output = self.data.path.with_name(self.data.path.name + ".out")

    def start(self, *, demo: bool = False, **env: str) -> None:
        """Start it, on the data that is there, and wait until it says that it is ready."""
        command = [sys.executable, "-m", "console.runner", "--die-with-parent"]
        command += ["--port", "0", "--data-dir", str(self.data.path), "--demo", str(int(demo))]
        with self._output.open("w") as out:
            self._process = subprocess.Popen(
                command,
                cwd=self.root,
                env=self._env() | env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                text=True,
                start_new_session=True,
            )
        deadline = time.monotonic() + _BOOT_SECONDS
        while "Countersign is ready" not in self.output:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill_supervisor()
                raise ProductFailed(f"the product did not start:\n{self.output[-6000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it as Ctrl-C does; a slow stop is a failure."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            code = self._process.wait(timeout=45)
        except subprocess.TimeoutExpired:
            self.kill_supervisor()
            raise ProductFailed(f"the product did not stop:\n{self.output[-3000:]}") from None
        self._process = None
        if code:
            raise ProductFailed(f"the product stopped with {code}:\n{self.output[-3000:]}")

    def kill_supervisor(self) -> None:
        """SIGKILL: what the machine's power button does, as near as a test can come."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def output(self) -> str:
        """What the terminal showed."""
        return self._output.read_text() if self._output.exists() else ""

    @property
    def instance(self) -> Instance:
        """Where its parts are."""
        found = self.data.instance()
        if found is None:
            raise ProductFailed(f"no instance runs in {self.data.path}")
        return found

    @property
    def base_url(self) -> str:
        """The origin a browser uses."""
        return self.instance.base_url

    def manage(self, *words: str, stdin: str = "") -> str:
        """Run a management command against it; returns what it printed on stdout."""
        done = subprocess.run(
            [sys.executable, str(self.root / "manage.py"), *words],
            cwd=self.root,
            env=self._env() | {"DATA_DIR": str(self.data.path)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise ProductFailed(f"manage.py {words[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def create_api_key(
        self,
        name: str = "tests",
        *,
        environment: str = "test",
        namespace: str = "default",
        scopes: str = "operations:write,operations:read",
    ) -> str:
        """Make a runtime's key and return it."""
        command = ["create_api_key", "--name", name, "--environment", environment]
        return self.manage(*command, "--namespace", namespace, "--scopes", scopes).strip()

    def create_user(self, email: str, role: str, password: str) -> None:
        """Make a person."""
        self.manage("create_user", email, "--role", role, "--password-stdin", stdin=password)

    def pids(self) -> dict[str, int]:
        """Process ids by name: postgres, valkey, web-1, web-2, sequencer, worker, beat..."""
        found: dict[str, int] = json.loads((self.data.path / "children.json").read_text())
        return found

    def kill(self, name: str, *, wait: bool = True) -> None:
        """SIGKILL a part, and wait until the supervisor has started it anew."""
        old = self.pids()[name]
        os.kill(old, signal.SIGKILL)
        deadline = time.monotonic() + 15
        while wait and self.pids().get(name) in {old, None}:
            if time.monotonic() > deadline:
                raise ProductFailed(f"{name} was not restarted:\n{self.output[-3000:]}")
            time.sleep(0.02)

    def wait_until_ready(self, within_seconds: float = 30) -> None:
        """Wait for /readyz to say yes."""
        deadline = time.monotonic() + within_seconds
        while True:
            try:
                url = f"http://127.0.0.1:{self.instance.port}/readyz"
                with urllib.request.urlopen(url, timeout=5) as answer:
                    if answer.status == 200:
                        return
                said = str(answer.status)
            except (OSError, urllib.error.URLError) as error:
                said = str(error)
            if time.monotonic() > deadline:
                raise ProductFailed(f"not ready after {within_seconds} s: {said}")
            time.sleep(0.05)

    def _env(self) -> dict[str, str]:
        return {k: v for k, v in os.environ.items() if not k.startswith(_NOT_INHERITED)}
