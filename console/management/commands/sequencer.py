"""`manage.py sequencer`: seals events and works on silence, for as long as it runs."""

import logging
import signal
import threading
import time
from typing import Any, Final

from django.core.management.base import BaseCommand
from django.db import DatabaseError, InterfaceError, connection

from operations import sweeps
from operations.ledger import sequencer

log = logging.getLogger("countersign.sequencer")

SEAL_SECONDS: Final = 0.1
SWEEP_SECONDS: Final = 1.0
#: After a failure: long enough not to spin, short enough to be back when the database is.
_PAUSE_SECONDS: Final = 0.5


class Command(BaseCommand):
    """One is enough; a second one waits on an advisory lock and takes over when the first dies.

    Needs nothing but the database: lapsed leases are worked on while Redis is away.
    """

    help = "Seal committed events into their gap-free order, and sweep lapsed leases."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        next_sweep = 0.0
        while not stop.is_set():
            try:
                busy = sequencer.run_once() > 0
                if time.monotonic() >= next_sweep:
                    next_sweep = time.monotonic() + SWEEP_SECONDS
                    self._sweep()
                stop.wait(SEAL_SECONDS / 5 if busy else SEAL_SECONDS)
            except (DatabaseError, InterfaceError) as error:
                log.warning("the database did not answer (%s); trying again", type(error).__name__)
                connection.close()
                stop.wait(_PAUSE_SECONDS)
        connection.close()

    def _sweep(self) -> None:
        counts = sweeps.run_once()
        sequencer.mark_swept()
        if any(counts.values()):
            log.info("swept: %s", ", ".join(f"{name} {n}" for name, n in counts.items() if n))
