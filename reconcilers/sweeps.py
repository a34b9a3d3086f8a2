"""Sweeps make certain what hints make quick: no UNKNOWN without a due look, no slot run twice."""

import json
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from reconcilers import asking, cadence, inbox

_MISSING: Final = """
SELECT s.operation_id, s.environment, s.namespace, s.tool
  FROM operations_standing s
  LEFT JOIN reconcilers_duelook d ON d.operation_id = s.operation_id
 WHERE s.state = 'UNKNOWN' AND (d.operation_id IS NULL OR d.purpose <> 'settle')
 ORDER BY s.operation_id LIMIT %s
"""
# Two permits to send, whatever the state: the effects are counted again at the settle point and
# later. A permit is given within the hour that a lease can last, hence the look back.
_TWICE_SENT: Final = """
SELECT o.id, o.environment, o.namespace, o.tool
  FROM operations_operation o
 WHERE o.id IN (SELECT operation_id FROM operations_attempt
                 WHERE number >= 2
                   AND granted_at > clock_timestamp() - make_interval(secs => %s)
                   AND (permit_at IS NOT NULL OR NOT fenced))
   AND NOT EXISTS (SELECT FROM reconcilers_duelook d WHERE d.operation_id = o.id)
   AND 2 <= (SELECT count(*) FROM operations_attempt a
              WHERE a.operation_id = o.id AND a.standing <> 'not_sent'
                AND (a.permit_at IS NOT NULL OR NOT a.fenced))
 ORDER BY o.id LIMIT %s
"""
_ENQUEUE: Final = """
INSERT INTO reconcilers_duelook
    (operation_id, lane, purpose, due_at, since, fence, looks, failures, strikes, holder, asked_by)
SELECT item.id, item.lane, %s, clock.now + make_interval(secs => %s), clock.now, 0, 0, 0, 0, '', ''
  FROM unnest(%s::uuid[], %s::text[]) AS item (id, lane),
       (SELECT clock_timestamp() AS now) AS clock
 ORDER BY item.id
ON CONFLICT (operation_id) DO UPDATE
   SET purpose = excluded.purpose, due_at = excluded.due_at, since = excluded.since,
       lane = excluded.lane, looks = 0, failures = 0, strikes = 0, leased_until = NULL,
       holder = '', fence = reconcilers_duelook.fence + 1
 WHERE reconcilers_duelook.purpose <> excluded.purpose
"""
_TAKE_SLOT: Final = """
INSERT INTO reconcilers_sweeplog AS log (name, slot, started_at, counts, refused, schedulers)
VALUES (%(name)s, floor(extract(epoch FROM clock_timestamp()) / %(period)s), clock_timestamp(),
        '{}', 0, jsonb_build_object(%(who)s::text, clock_timestamp()))
ON CONFLICT (name) DO UPDATE
   SET slot = excluded.slot, started_at = excluded.started_at,
       schedulers = (SELECT coalesce(jsonb_object_agg(key, value), '{}')
                       FROM jsonb_each(log.schedulers)
                      WHERE value #>> '{}' > (clock_timestamp() - interval '5 minutes')::text)
                    || excluded.schedulers
 WHERE log.slot < excluded.slot
RETURNING slot
"""
# A scheduler that is always second is named all the same: two of them are one too many.
_REFUSED: Final = """
UPDATE reconcilers_sweeplog
   SET refused = refused + 1,
       schedulers = schedulers || jsonb_build_object(%(who)s::text, clock_timestamp())
 WHERE name = %(name)s
"""
_FINISHED: Final = """
INSERT INTO reconcilers_sweeplog (name, slot, finished_at, counts, refused, schedulers)
VALUES (%s, 0, clock_timestamp(), %s::jsonb, 0, '{}')
ON CONFLICT (name) DO UPDATE SET finished_at = excluded.finished_at, counts = excluded.counts
"""

#: Name of the sweep whose last finish is the engine's freshness.
RECONCILE: Final = "reconcile"
RECOUNT: Final = "recount"
#: One outage's operations come due together, so that one window of a list serves them all.
MOST_AT_ONCE: Final = 20_000
_RECOUNT_EVERY_SECONDS: Final = 30
#: The longest a lease can last, and as much again for a console that was away.
_LOOK_BACK_SECONDS: Final = 7200


def take_slot(name: str, period_seconds: float, *, scheduler: str) -> bool:
    """Whether this tick may run: one per period of the database's clock, whoever schedules."""
    with connection.cursor() as cur:
        cur.execute(_TAKE_SLOT, {"name": name, "period": period_seconds, "who": scheduler})
        if cur.fetchone() is not None:
            return True
        cur.execute(_REFUSED, {"name": name, "who": scheduler})
    return False


def finished(name: str, counts: dict[str, int]) -> None:
    """Note that a sweep has come to its end: freshness is measured by nothing else."""
    with connection.cursor() as cur:
        cur.execute(_FINISHED, (name, json.dumps(counts)))


def run_once(*, limit: int = MOST_AT_ONCE) -> dict[str, int]:
    """One sweep; counts of what was put on the queue."""
    counts = {"missing": enqueue_missing(limit=limit), "recounts": 0}
    counts |= inbox.run_once()
    if take_slot(RECOUNT, _RECOUNT_EVERY_SECONDS, scheduler="sweep"):
        counts["recounts"] = enqueue_recounts(limit=limit)
        finished(RECOUNT, {"recounts": counts["recounts"]})
    return counts


def enqueue_missing(*, limit: int = MOST_AT_ONCE) -> int:
    """Every UNKNOWN operation gets a due look, its first about a second from now."""
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute(_MISSING, (limit,))
        return _enqueue(cur, cur.fetchall(), "settle", cadence.FIRST_LOOK.total_seconds())


def enqueue_recounts(
    *, limit: int = MOST_AT_ONCE, look_back_seconds: int = _LOOK_BACK_SECONDS
) -> int:
    """Operations that may have been sent twice get their effects counted, COMMITTED or not."""
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute(_TWICE_SENT, (look_back_seconds, limit))
        return _enqueue(cur, cur.fetchall(), "recheck", 0.0)


def _enqueue(cur: Any, rows: list[Any], purpose: str, delay_seconds: float) -> int:
    if not rows:
        return 0
    lanes = asking.lanes_of(
        cur, {(environment, namespace, tool) for _, environment, namespace, tool in rows}
    )
    ids: list[UUID] = [row[0] for row in rows]
    cur.execute(
        _ENQUEUE, (purpose, delay_seconds, ids, [lanes[row[1], row[2], row[3]] for row in rows])
    )
    return int(cur.rowcount)
