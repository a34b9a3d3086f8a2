"""A pytest plugin: Postgres and Valkey for the whole session, ready before Django's settings load.

The process that was started first (with pytest-xdist: the controller) starts them in a temporary
folder and hands them down by environment variables, which its workers inherit. DATABASE_URL and
REDIS_URL, where set, are used instead. Nothing survives the session, however it ends.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from console.runner.postgres import EmbeddedPostgres
from console.runner.valkey import EmbeddedValkey

# Fixed, so that a failure replays; of no use anywhere else.
_TEST_SECRETS = {
    "SECRET_KEY": "only-for-tests-" + "0123456789abcdef" * 3,
    "COUNTERSIGN_KEYRING": "dGVzdHMtdGVzdHMtdGVzdHMtdGVzdHMtdGVzdHMtdHc=",
}
_MARK = "COUNTERSIGN_TEST_SESSION"


class Services:
    """The session's servers and their folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="countersign-test-"))
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, service: EmbeddedPostgres | EmbeddedValkey) -> str:
        """Start one and return its URL."""
        service.prepare()
        log = self.folder / f"{service.name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                service.argv,
                preexec_fn=service.preexec,  # noqa: PLW1509 -- one thread so far
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.running.append(process)
        deadline = time.monotonic() + 60
        while not service.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise pytest.UsageError(f"{service.name} did not start:\n{log.read_text()[-4000:]}")
            time.sleep(0.02)
        return service.url

    def stop(self) -> None:
        """End them without ceremony, for nothing in them is kept."""
        for process in self.running:
            process.send_signal(signal.SIGQUIT if process is self.running[0] else signal.SIGKILL)
        for process in self.running:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_services: Services | None = None


def _begin() -> Services:
    services = Services()
    environ = os.environ
    environ[_MARK] = str(services.folder)
    environ.update(_TEST_SECRETS)
    # A developer's own settings must not change what the tests see.
    environ["COUNTERSIGN_MODE"] = "local"
    environ["DATA_DIR"] = str(services.folder / "data")
    environ["DEMO"] = "0"
    environ.pop("COUNTERSIGN_ORIGIN", None)
    environ.pop("COUNTERSIGN_DEBUG", None)
    # Tests race many threads against each other; none should wait for a pool's slot.
    environ["DATABASE_POOL_SIZE"] = "0"
    (services.folder / "data").mkdir(mode=0o700)
    if not environ.get("DATABASE_URL"):
        postgres = EmbeddedPostgres(services.folder, throw_away=True)
        environ["DATABASE_URL"] = services.start(postgres)
    if not environ.get("REDIS_URL"):
        environ["REDIS_URL"] = services.start(EmbeddedValkey(services.folder))
    return services


def _own_places() -> None:
    # Databases of Postgres are per worker by pytest-django; Valkey has sixteen, told by number.
    # What is kept outside a database is kept for each of them.
    name = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    kept = Path(os.environ["DATA_DIR"]) / f"ledger-{name}" / "checkpoint"
    os.environ["COUNTERSIGN_LEDGER_CHECKPOINT"] = str(kept)
    worker = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    if worker:
        number = (int(worker.group()) + 1) % 16
        os.environ["REDIS_URL"] = re.sub(r"/\d*$", f"/{number}", os.environ["REDIS_URL"])


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, object, object]:
    """Before pytest-django reads the settings, which is before any conftest is imported."""
    global _services
    if _MARK not in os.environ:
        _services = _begin()
    _own_places()
    return (yield)


def pytest_unconfigure() -> None:
    """After everything."""
    global _services
    if _services is not None:
        _services.stop()
        _services = None
        os.environ.pop(_MARK, None)
