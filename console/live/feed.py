"""What changed, as the sealed order has it: names and ids only, never content."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import connection

from operations.ids import handle

_MOST_ROWS: Final = 1000

_NEWEST = "SELECT coalesce(max(seq), 0) FROM operations_sealedevent"
_AFTER = """
SELECT sealed.seq, event.operation_id, event.version,
       event.data ->> 'approval', event.data ->> 'incident'
FROM operations_sealedevent sealed JOIN operations_event event ON event.id = sealed.event_id
WHERE sealed.seq > %s ORDER BY sealed.seq LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a page may have to fetch again. `topic` is what a client subscribes to."""

    seq: int
    topic: str
    event: str
    id: str
    version: int | None


def newest() -> int:
    """The end of the sealed order."""
    with connection.cursor() as cur:
        cur.execute(_NEWEST)
        return int(cur.fetchone()[0])


def after(seq: int) -> tuple[int, list[Change]]:
    """The next changes after `seq`, and the number up to which they go."""
    with connection.cursor() as cur:
        cur.execute(_AFTER, [seq, _MOST_ROWS])
        rows = cur.fetchall()
    return (rows[-1][0] if rows else seq), list(_changes(rows))


def _changes(
    rows: Iterable[tuple[int, UUID | None, int | None, str | None, str | None]],
) -> Iterable[Change]:
    for seq, operation, version, approval, incident in rows:
        if operation is not None:
            yield Change(seq, "ops", "op-changed", handle("op", operation), version)
        if approval is not None:
            yield Change(seq, "approvals", "approval-changed", approval, None)
        if incident is not None:
            yield Change(seq, "incidents", "incident-changed", incident, None)
