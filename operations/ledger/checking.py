"""Folds the events and compares the result with every row; reads only."""

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from operations.ledger import tree, tree_checking
from operations.ledger.differences import Difference

# An operation's events are numbered by the version they made; an event that changes the state
# leads from the state that the one before it led to.
_ROWS: Final = """
WITH steps AS (
    SELECT operation_id, version, from_state, to_state,
           lag(to_state) OVER by_version AS before,
           row_number() OVER by_version AS place
      FROM operations_event WHERE {chosen} AND to_state IS NOT NULL
    WINDOW by_version AS (PARTITION BY operation_id ORDER BY version, id)
), broken AS (
    SELECT DISTINCT ON (operation_id) operation_id, version, before, from_state FROM steps
     WHERE from_state IS DISTINCT FROM before ORDER BY operation_id, version
), folded AS (
    SELECT DISTINCT ON (operation_id) operation_id, to_state FROM steps
     ORDER BY operation_id, version DESC
), newest AS (
    SELECT operation_id, max(version) AS version, count(version) AS events
      FROM operations_event WHERE {chosen} GROUP BY operation_id
), born AS (
    SELECT operation_id, data FROM operations_event
     WHERE {chosen} AND version = 1 AND type = 'operation.recorded'
)
SELECT o.id::text, o.state, o.version, folded.to_state, newest.version, newest.events,
       broken.version, broken.before, broken.from_state, born.data->>'args_fingerprint',
       o.args_fingerprint
  FROM operations_operation o
  LEFT JOIN folded ON folded.operation_id = o.id
  LEFT JOIN newest ON newest.operation_id = o.id
  LEFT JOIN broken ON broken.operation_id = o.id
  LEFT JOIN born ON born.operation_id = o.id
 WHERE {of_rows} AND (
       folded.to_state IS DISTINCT FROM o.state OR newest.version IS DISTINCT FROM o.version
    OR newest.events IS DISTINCT FROM o.version OR broken.operation_id IS NOT NULL
    OR born.data->>'args_fingerprint' <> o.args_fingerprint)
 ORDER BY o.id LIMIT %(limit)s
"""
#: Whole tables, or the operations that a piece of the running check has met.
_ALL: Final = {"chosen": "operation_id IS NOT NULL", "of_rows": "true"}
_SOME: Final = {"chosen": "operation_id = ANY(%(ids)s)", "of_rows": "o.id = ANY(%(ids)s)"}
_BODIES: Final = """
SELECT p.operation_id::text, p.kind FROM operations_payload p
 WHERE {chosen} AND p.body IS NOT NULL AND sha256(p.body) <> p.sha256
 ORDER BY p.operation_id LIMIT %(limit)s
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
 WHERE {chosen}
   AND NOT EXISTS (SELECT FROM operations_operation o WHERE o.id = e.operation_id)
 ORDER BY e.id LIMIT %(limit)s
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
        yield from row_differences(cur, limit)
        cur.execute(_STANDING, (limit,))
        for op, state, standing in cur.fetchall():
            yield Difference(f"open table, operation {op}", f"{state}", f"{standing}")
        cur.execute(_SEQUENCE, (limit,))
        for seq, before in cur.fetchall():
            yield Difference(f"seal #{before + 1}", f"a seal after #{before}", f"#{seq}")
        cur.execute(_DISORDER, (limit,))
        for seq, op in cur.fetchall():
            yield Difference(f"sealed #{seq}", f"operation {op} in order of versions", "disorder")
        cur.execute(_HEAD)
        head = cur.fetchone()
        if head is not None and head[0] != head[1]:
            yield Difference("sequencer", f"sealed to #{head[0]}", f"newest is #{head[1]}")
        yield from tree_checking.differences(cur, limit)


def forgiven() -> frozenset[str]:
    """Where the differences are that an admin signed for when the current log began.

    Entries are not among them: the log that began holds those as they were then.
    """
    with connection.cursor() as cur:
        log = tree.current(cur)
    known = log.forgiven if log else frozenset()
    return frozenset(where for where in known if not where.startswith("entry #"))


def row_differences(
    cur: Any, limit: int, only: Sequence[UUID] | None = None
) -> Iterator[Difference]:
    """Operations whose row, events or payloads do not say the same; all of them, or `only` these.

    One statement sees the row and its events as one commit left them.
    """
    which = _ALL if only is None else _SOME
    bound = {"limit": limit, "ids": list(only or ())}
    cur.execute(_ROWS.format(**which), bound)
    for row in cur.fetchall():
        yield from _of_row(row)
    cur.execute(_ORPHANS.format(**which), bound)
    for event, op in cur.fetchall():
        yield Difference(f"event {event}", f"operation {op}", "no such row")
    cur.execute(_BODIES.format(**which), bound)
    for op, kind in cur.fetchall():
        yield Difference(f"operation {op}, its {kind}", "the bytes of its digest", "other bytes")


def _of_row(row: tuple[Any, ...]) -> Iterator[Difference]:
    op, state, version, folded, newest, events, broken, before, led_from, recorded, print_ = row
    where = f"operation {op}"
    if folded != state:
        yield Difference(where, f"state {folded} by its events", f"state {state}")
    if newest != version or events != version:
        yield Difference(where, f"{events} events up to {newest}", f"version {version}")
    if broken is not None:
        yield Difference(
            f"{where}, event {broken}", f"leads from {before}", f"says from {led_from}"
        )
    if recorded is not None and recorded != print_:
        yield Difference(where, f"arguments {recorded}", f"arguments {print_}")
