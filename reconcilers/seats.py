"""How many engines run at once: each serves every lane, so two are plenty and more are a flood.

Ticks come every second whether the last one is done or not. Without seats a long backlog would
fill every worker with engines, and expiries and alerts would wait behind them.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django.db import connection

SEATS: Final = 2
#: An engine that has not been heard of for this long has died.
HELD_SECONDS: Final = 10

_TAKE: Final = """
INSERT INTO reconcilers_engineseat AS seat (number, holder, held_until)
SELECT wanted.number, %(holder)s, clock_timestamp() + make_interval(secs => %(held)s)
  FROM generate_series(1, %(seats)s) AS wanted (number)
 WHERE NOT EXISTS (SELECT FROM reconcilers_engineseat s
                    WHERE s.number = wanted.number AND s.held_until >= clock_timestamp())
 ORDER BY wanted.number LIMIT 1
ON CONFLICT (number) DO UPDATE
   SET holder = excluded.holder, held_until = excluded.held_until
 WHERE seat.held_until < clock_timestamp()
RETURNING number
"""
_KEEP: Final = """
UPDATE reconcilers_engineseat SET held_until = clock_timestamp() + make_interval(secs => %s)
 WHERE number = %s AND holder = %s
"""


@dataclass(frozen=True)
class Seat:
    """A seat taken by one engine."""

    number: int
    holder: str

    def keep(self) -> None:
        """Say that the engine is alive; about once a second."""
        with connection.cursor() as cur:
            cur.execute(_KEEP, (HELD_SECONDS, self.number, self.holder))


@contextmanager
def taken() -> Iterator[Seat | None]:
    """A seat for the length of a block, or None where all are taken."""
    holder = uuid.uuid4().hex
    with connection.cursor() as cur:
        cur.execute(_TAKE, {"holder": holder, "held": HELD_SECONDS, "seats": SEATS})
        row = cur.fetchone()
    if row is None:
        yield None
        return
    try:
        yield Seat(row[0], holder)
    finally:
        with connection.cursor() as cur:
            cur.execute(_KEEP, (-1, row[0], holder))
