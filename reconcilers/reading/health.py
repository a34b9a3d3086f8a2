"""How the accounts are, and whether anybody reconciles at all."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import connection

from reconcilers import allowances, queue, registry, sweeps
from reconcilers.breakers import Breakers
from reconcilers.models import ProviderAccount, SweepLog
from reconcilers.reading.horizons import NOTHING_MEASURED, Horizon, reads_last_minute
from reconcilers.reading.horizons import horizons as horizons_of_accounts


@dataclass(frozen=True, kw_only=True)
class AccountHealth:
    """One account (or, without id, the operations that nobody can be asked about)."""

    id: str
    kind: str
    title: str
    name: str
    environment: str
    namespace: str
    verdict: str
    backlog: int
    overdue: int
    lag_seconds: float
    asked_last_hour: int
    errors_last_hour: int
    errors: tuple[tuple[str, int], ...]
    last_answer_at: datetime | None
    last_settled_at: datetime | None
    breaker: str
    paused_at: datetime | None
    limits: dict[str, float]
    reads_of_30_days: int = 0
    reads_last_minute: int = 0
    horizon: Horizon = NOTHING_MEASURED

    @property
    def budget_percent(self) -> int | None:
        """Of the reads that its limits allow in a minute, those of the last one; None unbounded."""
        rate = self.limits.get("account", self.limits.get("*"))
        return None if not rate else min(100, round(self.reads_last_minute / (rate * 60) * 100))

    @property
    def reads_allowed(self) -> float | None:
        """The account's own bound on them, where it has one."""
        return self.limits.get("month")


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """When the last sweep finished, by the database's clock; process state says nothing."""

    finished_at: datetime | None
    age_seconds: float | None
    is_stale: bool
    limits_are_shared: bool
    refused_ticks: int
    schedulers: tuple[str, ...]


#: A sweep runs each second; one that has not finished for this long is reported.
STALE_AFTER_SECONDS: Final = 60.0

_BACKLOG: Final = """
SELECT lane, count(*) FILTER (WHERE purpose = 'settle'),
       count(*) FILTER (WHERE due_at < clock_timestamp() AND holder = ''),
       coalesce(extract(epoch FROM clock_timestamp()
                        - min(due_at) FILTER (WHERE due_at < clock_timestamp())), 0)
  FROM reconcilers_duelook WHERE due_at IS NOT NULL GROUP BY lane
"""
_ASKED: Final = """
SELECT account_id::text, count(*), count(*) FILTER (WHERE outcome = 'cannot_look'),
       max(ended_at) FILTER (WHERE outcome <> 'cannot_look'),
       max(ended_at) FILTER (WHERE outcome = 'hit')
  FROM reconcilers_finding
 WHERE ended_at > clock_timestamp() - interval '1 hour' AND account_id IS NOT NULL
   AND lookup <> 'webhook'
 GROUP BY account_id
"""
_ERRORS: Final = """
SELECT account_id::text, reason, count(*) FROM reconcilers_finding
 WHERE ended_at > clock_timestamp() - interval '1 hour' AND outcome = 'cannot_look'
   AND account_id IS NOT NULL
 GROUP BY account_id, reason ORDER BY count(*) DESC LIMIT 100
"""


def account_health() -> list[AccountHealth]:
    """Every account, worst first, and one line for what has none, where there is such."""
    with connection.cursor() as cur:
        cur.execute(_BACKLOG)
        backlog = {lane: (int(a), int(b), float(c)) for lane, a, b, c in cur.fetchall()}
        cur.execute(_ASKED)
        asked = {row[0]: row[1:] for row in cur.fetchall()}
        cur.execute(_ERRORS)
        errors: dict[str, list[tuple[str, int]]] = {}
        for lane, reason, count in cur.fetchall():
            errors.setdefault(lane, []).append((reason, int(count)))
    known = list(ProviderAccount.objects.order_by("kind", "name"))
    reads = allowances.used_by(settings.REDIS_URL, [str(account.id) for account in known])
    horizons, lately = horizons_of_accounts(), reads_last_minute()
    breakers = Breakers(settings.REDIS_URL)
    try:
        found = [
            replace(
                _health(account, backlog, asked, errors, breakers, reads.get(str(account.id), 0)),
                reads_last_minute=lately.get(str(account.id), 0),
                horizon=horizons.get(str(account.id), NOTHING_MEASURED),
            )
            for account in known
        ]
    finally:
        breakers.close()
    if queue.NO_LANE in backlog:
        found.append(_of_nobody(backlog[queue.NO_LANE]))
    order = {"down": 0, "slow": 1, "paused": 2, "nobody to ask": 3, "healthy": 4}
    return sorted(found, key=lambda health: order[health.verdict])


def _health(
    account: ProviderAccount,
    backlog: dict[str, tuple[int, int, float]],
    asked: dict[str, Any],
    errors: dict[str, list[tuple[str, int]]],
    breakers: Breakers,
    reads: int,
) -> AccountHealth:
    lane = str(account.id)
    waiting, overdue, lag = backlog.get(lane, (0, 0, 0.0))
    count, failed, last_answer, last_hit = asked.get(lane, (0, 0, None, None))
    provider = registry.providers().get(account.kind)
    breaker = breakers.state(lane)
    verdict = "healthy"
    if account.paused_at is not None:
        verdict = "paused"
    elif breaker in {"open", "half-open"} or (count and failed == count):
        verdict = "down"
    elif lag > STALE_AFTER_SECONDS or failed:
        verdict = "slow"
    limits = dict(provider.limits_in(account.environment)) if provider else {}
    return AccountHealth(
        id=lane,
        kind=account.kind,
        title=provider.title if provider else account.kind,
        name=account.name,
        environment=account.environment,
        namespace=account.namespace,
        verdict=verdict,
        backlog=waiting,
        overdue=overdue,
        lag_seconds=lag,
        asked_last_hour=int(count),
        errors_last_hour=int(failed),
        errors=tuple(errors.get(lane, ())),
        last_answer_at=last_answer,
        last_settled_at=last_hit,
        breaker=breaker,
        paused_at=account.paused_at,
        limits=limits | account.config.get("limits", {}),
        reads_of_30_days=reads,
    )


def _of_nobody(backlog: tuple[int, int, float]) -> AccountHealth:
    return AccountHealth(
        id="",
        kind="",
        title="No look-up",
        name="",
        environment="",
        namespace="",
        verdict="nobody to ask",
        backlog=backlog[0],
        overdue=0,
        lag_seconds=0.0,
        asked_last_hour=0,
        errors_last_hour=0,
        errors=(),
        last_answer_at=None,
        last_settled_at=None,
        breaker="",
        paused_at=None,
        limits={},
    )


def freshness() -> Freshness:
    """Is anybody reconciling? Told by the last sweep that came to its end."""
    log = SweepLog.objects.filter(pk=sweeps.RECONCILE).first()
    age = None
    if log is not None and log.finished_at is not None:
        with connection.cursor() as cur:
            cur.execute(
                "SELECT extract(epoch FROM clock_timestamp() - %s::timestamptz)", (log.finished_at,)
            )
            age = float(cur.fetchone()[0])
    return Freshness(
        finished_at=log.finished_at if log else None,
        age_seconds=age,
        limits_are_shared=not (log and log.counts.get("limits_not_shared")),
        is_stale=age is None or age > STALE_AFTER_SECONDS,
        refused_ticks=log.refused if log else 0,
        schedulers=tuple(sorted(log.schedulers)) if log else (),
    )
