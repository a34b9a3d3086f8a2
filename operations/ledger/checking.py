"""Folds the events and compares the result with every row; reads only."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction


@dataclass(frozen=True)
class Difference:
    """One thing that does not fit: where, what the events say, what the row says."""

    where: str
    expected: str
    found: str


# An operation's events are numbered by the version they made; an event that changes the state
# leads from the state that the one before it led to.
_ROWS: Final = """
WITH steps AS (
    SELECT operation_id, version, from_state, to_state,
           lag(to_state) OVER by_version AS before,
           row_number() OVER by_version AS place
      FROM operations_event WHERE operation_id IS NOT NULL AND to_state IS NOT NULL
    WINDOW by_version AS (PARTITION BY operation_id ORDER BY version, id)
), broken AS (
    SELECT DISTINCT ON (operation_id) operation_id, version, before, from_state FROM steps
     WHERE from_state IS DISTINCT FROM before ORDER BY operation_id, version
), folded AS (
    SELECT DISTINCT ON (operation_id) operation_id, to_state FROM steps
     ORDER BY operation_id, version DESC
), newest AS (
    SELECT operation_id, max(version) AS version, count(version) AS events
      FROM operations_event WHERE operation_id IS NOT NULL GROUP BY operation_id
)
SELECT o.id::text, o.state, o.version, folded.to_state, newest.version, newest.events,
       broken.version, broken.before, broken.from_state
  FROM operations_operation o
  LEFT JOIN folded ON folded.operation_id = o.id
  LEFT JOIN newest ON newest.operation_id = o.id
  LEFT JOIN broken ON broken.operation_id = o.id
 WHERE folded.to_state IS DISTINCT FROM o.state OR newest.version IS DISTINCT FROM o.version
    OR newest.events IS DISTINCT FROM o.version OR broken.operation_id IS NOT NULL
 ORDER BY o.id LIMIT %s
"""
_STANDING: Final = """
SELECT coalesce(o.id, s.operation_id)::text, o.state, s.state
  FROM operations_operation o FULL JOIN operations_standing s ON s.operation_id = o.id
 WHERE (CASE WHEN o.state = 'COMMITTED' THEN NULL ELSE o.state END) IS DISTINCT FROM s.state
 LIMIT %s
"""
_SEQUENCE: Final = """
SELECT seq, before FROM
    (SELECT seq, lag(seq, 1, 0::bigint) OVER (ORDER BY seq) AS before
       FROM operations_sealedevent) ordered
 WHERE seq <> before + 1 ORDER BY seq LIMIT %s
"""
_HEAD: Final = """
SELECT last_seq, (SELECT coalesce(max(seq), 0) FROM operations_sealedevent)
  FROM operations_sequencerstate WHERE id = 1
"""
_ORPHANS: Final = """
SELECT e.id, e.operation_id::text FROM operations_event e
 WHERE e.operation_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM operations_operation o WHERE o.id = e.operation_id)
 ORDER BY e.id LIMIT %s
"""
_DISORDER: Final = """
SELECT seq, operation_id::text FROM
    (SELECT s.seq, e.operation_id, e.version,
            lag(e.version) OVER (PARTITION BY e.operation_id ORDER BY s.seq) AS before
       FROM operations_sealedevent s JOIN operations_event e ON e.id = s.event_id
      WHERE e.operation_id IS NOT NULL AND e.version IS NOT NULL) ordered
 WHERE version <= before ORDER BY seq LIMIT %s
"""


def differences(limit: int = 100) -> Iterator[Difference]:
    """Whatever does not fit, at most `limit` of each kind, all read in one snapshot."""
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cur.execute(_ROWS, (limit,))
        for op, state, version, folded, newest, events, broken, before, led_from in cur.fetchall():
            where = f"operation {op}"
            if folded != state:
                yield Difference(where, f"state {folded} by its events", f"state {state}")
            if newest != version or events != version:
                yield Difference(where, f"{events} events up to {newest}", f"version {version}")
            if broken is not None:
                yield Difference(
                    f"{where}, event {broken}", f"leads from {before}", f"says from {led_from}"
                )
        cur.execute(_STANDING, (limit,))
        for op, state, standing in cur.fetchall():
            yield Difference(f"open table, operation {op}", f"{state}", f"{standing}")
        cur.execute(_ORPHANS, (limit,))
        for event, op in cur.fetchall():
            yield Difference(f"event {event}", f"operation {op}", "no such row")
        cur.execute(_SEQUENCE, (limit,))
        for seq, before in cur.fetchall():
            yield Difference("sealed sequence", f"#{before + 1} after #{before}", f"#{seq}")
        cur.execute(_DISORDER, (limit,))
        for seq, op in cur.fetchall():
            yield Difference(f"sealed #{seq}", f"operation {op} in order of versions", "disorder")
        cur.execute(_HEAD)
        head = cur.fetchone()
        if head is not None and head[0] != head[1]:
            yield Difference("sequencer", f"sealed to #{head[0]}", f"newest is #{head[1]}")
