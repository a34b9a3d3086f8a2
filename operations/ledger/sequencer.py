"""Seals committed events into one gap-free order, after they commit and without holding anyone up.

A batch is every event visible in this snapshot and not in the one before. Neither a bare id nor
"older than the oldest running transaction" keeps the order: ids are drawn before their commits,
and one long transaction would hold up all others. Within a batch events go by id, which is drawn
after the operation's row is locked, so that an operation's events always stand in their order.
What is sealed becomes an entry of the Merkle tree in the same transaction.
"""

from typing import Any, Final

from django.db import connection, transaction

from operations.ledger import tree

#: Whoever holds this advisory lock is the sequencer; a second one waits its turn.
_LOCK: Final = 0x5EA1

#: The snapshot that sees nothing: where a new installation begins.
_NOTHING: Final = "1:1:"
_STATE: Final = """
INSERT INTO operations_sequencerstate (id, snapshot, last_seq) VALUES (1, '', 0)
ON CONFLICT (id) DO NOTHING
"""
_SEAL: Final = """
WITH batch AS ({batch}), sealed AS (
    INSERT INTO operations_sealedevent (seq, event_id)
    SELECT %(last)s + row_number() OVER (ORDER BY id), id FROM batch
    RETURNING seq
)
UPDATE operations_sequencerstate
   SET snapshot = %(now)s, ran_at = clock_timestamp(),
       last_seq = last_seq + (SELECT count(*) FROM sealed)
 WHERE id = 1
RETURNING last_seq - %(last)s
"""
#: What an earlier snapshot does not show is what was running then, or began since: looked up by
#: transaction, so that one that stays open for hours costs nothing. What is sealed stays sealed,
#: even where numbers of transactions come again after a restore.
_SINCE: Final = """
    SELECT e.id FROM (
        SELECT id, xid FROM operations_event
         WHERE xid = ANY(ARRAY(SELECT pg_snapshot_xip(%(before)s::pg_snapshot)))
        UNION ALL
        SELECT id, xid FROM operations_event WHERE xid >= pg_snapshot_xmax(%(before)s::pg_snapshot)
    ) e
     WHERE pg_visible_in_snapshot(e.xid, %(now)s::pg_snapshot)
       AND NOT EXISTS (SELECT FROM operations_sealedevent s WHERE s.event_id = e.id)"""
#: In another cluster, where a dump was restored, transaction numbers begin anew and those of old
#: rows mean nothing: once, whatever is not sealed is sealed.
_UNSEALED: Final = """
    SELECT e.id FROM operations_event e
     WHERE NOT EXISTS (SELECT FROM operations_sealedevent s WHERE s.event_id = e.id)"""
#: Plans for a few new rows in tables of millions, whatever the statistics say.
_BY_INDEX: Final = """
SELECT pg_try_advisory_xact_lock(%s), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"""
_SNAPSHOT: Final = """
SELECT now::text, pg_snapshot_xmax(%s::pg_snapshot) > pg_snapshot_xmax(now)
  FROM (SELECT pg_current_snapshot()) AS current(now)"""


def run_once() -> int:
    """Seal what has committed since the last time and grow the tree; how many events that were.

    Safe beside another sequencer: one seals, the other finds nothing to do (0).
    """
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute(_BY_INDEX, (_LOCK,))
        if not cur.fetchone()[0]:
            return 0
        before, last = _where_it_stands(cur)
        # Its own statement: what this snapshot holds is visible to the next statement too, and
        # what commits in between is left for the next batch.
        cur.execute(_SNAPSHOT, (before,))
        now, is_other_cluster = cur.fetchone()
        seal = _SEAL.format(batch=_UNSEALED if is_other_cluster else _SINCE)
        cur.execute(seal, {"before": before, "now": now, "last": last})
        sealed: int = cur.fetchone()[0]
        return tree.grow(cur) or sealed


def is_mine(cur: Any) -> bool:
    """Whether this transaction is the sequencer's, from now until it ends."""
    cur.execute("SELECT pg_try_advisory_xact_lock(%s)", (_LOCK,))
    return bool(cur.fetchone()[0])


def take(cur: Any) -> None:
    """Be the sequencer until this transaction ends, as soon as the other one pauses."""
    cur.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def mark_swept() -> None:
    """Remember that a sweep has finished: readiness judges freshness, not processes."""
    with connection.cursor() as cur:
        cur.execute(_STATE)
        cur.execute(
            "UPDATE operations_sequencerstate SET swept_at = clock_timestamp() WHERE id = 1"
        )


def _where_it_stands(cur: Any) -> tuple[str, int]:
    read = "SELECT snapshot, last_seq FROM operations_sequencerstate WHERE id = 1 FOR UPDATE"
    cur.execute(read)
    row = cur.fetchone()
    if row is None:
        cur.execute(_STATE)
        cur.execute(read)
        row = cur.fetchone()
    return row[0] or _NOTHING, row[1]
