"""A decision wakes the sequencer, which publishes it; only then may anything be granted."""

from typing import Any, Final

CHANNEL: Final = "ledger_urgent"


def wake(cur: Any) -> None:
    """Have the sequencer publish what this transaction adds, the moment it commits."""
    cur.execute("SELECT pg_notify(%s, '')", (CHANNEL,))
