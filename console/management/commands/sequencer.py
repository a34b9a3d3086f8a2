"""`manage.py sequencer`: seals events, publishes checkpoints, works on silence, keeps checking."""

import logging
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import psycopg
from django.core.management.base import BaseCommand
from django.db import DatabaseError, InterfaceError, connection, connections

from approvals import signing_keys
from operations import sweeps
from operations.ledger import checkpoints, publication, sequencer, waking, watching

log = logging.getLogger("countersign.sequencer")

SEAL_SECONDS: Final = 0.1
SWEEP_SECONDS: Final = 1.0
#: Between two pieces of the running check, each of which costs some milliseconds.
WATCH_SECONDS: Final = 2.0
#: After a failure: long enough not to spin, short enough to be back when the database is.
_PAUSE_SECONDS: Final = 0.5


class Command(BaseCommand):
    """One is enough; a second one waits on an advisory lock and takes over when the first dies.

    Needs nothing but the database and the ledger's key: lapsed leases are worked on while Redis is
    away. A decision wakes it at once by NOTIFY.
    """

    help = "Seal committed events, publish signed checkpoints, and sweep lapsed leases."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        # The key is read once, here: a missing one stops the start, not the first decision.
        signer = signing_keys.ledger_signer()
        every = [_Every(SWEEP_SECONDS, self._sweep), _Every(WATCH_SECONDS, self._watch)]
        ear: psycopg.Connection | None = None
        while not stop.is_set():
            try:
                ear = ear or _listen()
                sequencer.run_once()
                if checkpoints.publish(signer) is not None:
                    publication.open_gates()
                for work in every:
                    work.run_if_due()
                # Not sooner when busy: a batch costs much the same whatever it holds.
                _wait(ear, SEAL_SECONDS)
            except (DatabaseError, InterfaceError, psycopg.Error) as error:
                log.warning("the database did not answer (%s); trying again", type(error).__name__)
                connection.close()
                _hang_up(ear)
                ear = None
                stop.wait(_PAUSE_SECONDS)
        _hang_up(ear)
        connection.close()

    def _sweep(self) -> None:
        counts = sweeps.run_once() | {"gates_opened": publication.open_gates()}
        sequencer.mark_swept()
        if any(counts.values()):
            log.info("swept: %s", ", ".join(f"{name} {n}" for name, n in counts.items() if n))

    def _watch(self) -> None:
        found = watching.run_once()
        if found is not None:
            log.error("the ledger does not fit (%s): %s", found.kind, found.sentence)


class _Every:
    """Work that is due again after so many seconds."""

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self.seconds = seconds
        self.work = work
        self.due = 0.0

    def run_if_due(self) -> None:
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + self.seconds
            self.work()


def _listen() -> psycopg.Connection:
    """A connection of its own that hears when a decision has been committed."""
    parameters = connections["default"].get_connection_params()
    for django_only in ("cursor_factory", "context", "pool"):
        parameters.pop(django_only, None)
    ear = psycopg.connect(**parameters, autocommit=True)
    ear.execute(f"LISTEN {waking.CHANNEL}")
    return ear


def _wait(ear: psycopg.Connection, seconds: float) -> None:
    """Until somebody decides, or for so long."""
    for _ in ear.notifies(timeout=seconds, stop_after=1):
        pass


def _hang_up(ear: psycopg.Connection | None) -> None:
    if ear is not None:
        ear.close()
