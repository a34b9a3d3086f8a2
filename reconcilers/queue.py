"""The queue of due looks: leased from Postgres with SKIP LOCKED, guarded by fences.

A lease that never comes back is a strike. Looks with one strike are leased in small batches and
those with more alone, so that what kills its worker is found and kills no neighbour twice; after
three it is left for a person. Whoever finishes a look must hold its fence: a slice that lost its
lease schedules nothing and concludes nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from operations import arrays

LEASE_SECONDS: Final = 20
#: Leases in a row that may be lost before a look is a person's business.
MOST_STRIKES: Final = 3
#: Slices that may work on one lane at once: the second serves what came due meanwhile.
SLICES_PER_LANE: Final = 2
NO_LANE: Final = "none"
_BATCH_OF_STRUCK: Final = {1: 20, 2: 1}


@dataclass(frozen=True, kw_only=True)
class Lease:
    """One look that this slice may carry out, once."""

    operation_id: UUID
    lane: str
    fence: int
    purpose: str
    since: datetime
    looks: int
    failures: int
    strikes: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What a finished look leaves behind; `due_at` None is rest."""

    operation_id: UUID
    purpose: str
    due_at: datetime | None
    since: datetime
    looks: int
    failures: int
    lane: str
    strikes: int = 0


_LANES: Final = """
SELECT d.lane, count(*) FILTER (WHERE d.leased_until IS NULL
                                   OR d.leased_until < clock_timestamp())
  FROM reconcilers_duelook d
 WHERE d.due_at <= clock_timestamp()
 GROUP BY d.lane
HAVING count(*) FILTER (WHERE d.leased_until IS NULL OR d.leased_until < clock_timestamp()) > 0
   AND count(DISTINCT d.holder) FILTER (WHERE d.leased_until >= clock_timestamp()) < %s
"""
_LEASE: Final = """
WITH due AS (
    SELECT operation_id FROM reconcilers_duelook
     WHERE lane = %s AND due_at <= clock_timestamp()
       AND (leased_until IS NULL OR leased_until < clock_timestamp())
       AND least(strikes + (leased_until IS NOT NULL)::int, 2) = %s
     ORDER BY due_at LIMIT %s
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE reconcilers_duelook d
   SET leased_until = clock_timestamp() + make_interval(secs => %s), holder = %s,
       fence = fence + 1, strikes = strikes + (leased_until IS NOT NULL)::int
  FROM due WHERE d.operation_id = due.operation_id
RETURNING d.operation_id, d.lane, d.fence, d.purpose, d.since, d.looks, d.failures, d.strikes
"""
# What is being concluded at this moment is locked, in another order, and needs no longer lease.
_RENEW: Final = """
WITH mine AS (
    SELECT operation_id FROM reconcilers_duelook
     WHERE holder = ANY(%s) AND leased_until >= clock_timestamp()
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE reconcilers_duelook d SET leased_until = clock_timestamp() + make_interval(secs => %s)
  FROM mine WHERE d.operation_id = mine.operation_id
"""
_HOLD: Final = """
SELECT operation_id, fence FROM reconcilers_duelook
 WHERE operation_id = ANY(%s) ORDER BY operation_id FOR NO KEY UPDATE
"""
_FINISH: Final = """
UPDATE reconcilers_duelook AS d
   SET purpose = said.purpose, due_at = said.due_at, since = said.since, looks = said.looks,
       failures = said.failures, strikes = said.strikes, lane = said.lane, leased_until = NULL,
       holder = '', asked_by = ''
  FROM unnest(%s::uuid[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::int[], %s::int[],
              %s::int[], %s::text[])
       AS said (id, purpose, due_at, since, looks, failures, strikes, lane)
 WHERE d.operation_id = said.id
"""
_NEXT_DUE: Final = """
SELECT EXTRACT(epoch FROM min(due_at) - clock_timestamp()) FROM reconcilers_duelook
 WHERE due_at IS NOT NULL AND leased_until IS NULL
"""


def lanes_with_work(cur: Any) -> list[tuple[str, int]]:
    """Lanes with due looks that nobody holds and room for one more slice, and how many are due."""
    cur.execute(_LANES, (SLICES_PER_LANE,))
    return [(lane, int(due)) for lane, due in cur.fetchall()]


def lease(
    cur: Any,
    lane: str,
    *,
    holder: str,
    limit: int,
    strikes: int = 0,
    seconds: int = LEASE_SECONDS,
) -> list[Lease]:
    """Take due looks of a lane: those with no strike, with one, or (2) with two and more."""
    limit = min(limit, _BATCH_OF_STRUCK.get(strikes, limit))
    cur.execute(_LEASE, (lane, strikes, limit, seconds, holder))
    return [
        Lease(
            operation_id=row[0],
            lane=row[1],
            fence=row[2],
            purpose=row[3],
            since=row[4],
            looks=row[5],
            failures=row[6],
            strikes=row[7],
        )
        for row in cur.fetchall()
    ]


def renew(cur: Any, holders: Sequence[str], *, seconds: int = LEASE_SECONDS) -> int:
    """Hold on for a while longer; what was lost already stays lost."""
    if not holders:
        return 0
    cur.execute(_RENEW, (list(holders), seconds))
    return int(cur.rowcount)


def still_held(cur: Any, leases: Iterable[Lease]) -> set[UUID]:
    """Lock these rows and say which fences still stand; the others' holders may write nothing."""
    by_id = {held.operation_id: held for held in leases}
    cur.execute(_HOLD, (list(by_id),))
    return {row[0] for row in cur.fetchall() if by_id[row[0]].fence == row[1]}


def finish(cur: Any, schedules: Sequence[Schedule]) -> None:
    """Write what comes next and give the leases back; only for rows that `still_held` named."""
    if schedules:
        cur.execute(
            _FINISH,
            (
                arrays.plain(after.operation_id for after in schedules),
                arrays.texts(after.purpose for after in schedules),
                arrays.moments(after.due_at for after in schedules),
                arrays.moments(after.since for after in schedules),
                arrays.plain(after.looks for after in schedules),
                arrays.plain(after.failures for after in schedules),
                arrays.plain(after.strikes for after in schedules),
                arrays.texts(after.lane for after in schedules),
            ),
        )


def forget(cur: Any, operation_ids: Collection[UUID]) -> None:
    """Nothing will ever be asked about these again."""
    if operation_ids:
        cur.execute(
            "DELETE FROM reconcilers_duelook WHERE operation_id = ANY(%s)", (list(operation_ids),)
        )


def seconds_to_next(cur: Any) -> float | None:
    """How long until something comes due; negative where it is overdue, None where nothing is."""
    cur.execute(_NEXT_DUE)
    seconds = cur.fetchone()[0]
    return None if seconds is None else float(seconds)
