"""Is the machine room alive? Each check says what it knows and how old that is."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.db.models import OuterRef, Subquery
from django.urls import reverse

from console.presentation.words import Headline
from console.search.operations import Count
from operations.models import Checkpoint, Log, SequencerState
from reconcilers.models import SweepLog
from reconcilers.reading import AccountHealth, account_health

if TYPE_CHECKING:
    from console.queries.overview import Tile

#: The sequencer seals about ten times a second and sweeps each second.
SEQUENCER_LIMIT: Final = timedelta(seconds=15)
RECONCILER_LIMIT: Final = timedelta(minutes=2)
#: A log that grew is signed each minute.
GROWN_LIMIT: Final = timedelta(minutes=2)


@dataclass(frozen=True)
class Check:
    """One line of the trust panel. `at` is when it was last known; `late` that it is too old."""

    label: str
    says: str
    at: datetime | None
    late: bool


def checks(now: datetime) -> list[Check]:
    """Sealing, sweeping and looking."""
    sealed = SequencerState.objects.first()
    lines = [
        _check(
            "Ledger order",
            f"sealed to #{sealed.last_seq:,}" if sealed else "never sealed",
            sealed.ran_at if sealed else None,
            SEQUENCER_LIMIT,
            now,
        ),
        *ledger_checks(now),
        _check(
            "Lease sweep",
            "lapsed leases are found",
            sealed.swept_at if sealed else None,
            SEQUENCER_LIMIT,
            now,
        ),
    ]
    lines += [
        _check(
            sweep.name.replace("_", " ").capitalize(), "", sweep.finished_at, RECONCILER_LIMIT, now
        )
        for sweep in SweepLog.objects.order_by("name")
    ]
    return lines


def ledger_checks(now: datetime) -> list[Check]:
    """The published checkpoint, and the running check of every entry and row."""
    newest = Checkpoint.objects.filter(log=OuterRef("pk")).order_by("-size")
    log = (
        Log.objects.annotate(
            signed=Subquery(newest.values("size")[:1]),
            signed_at=Subquery(newest.values("published_at")[:1]),
        )
        .order_by("-id")
        .first()
    )
    if log is None:
        return []
    signed, at = log.signed, log.signed_at
    is_unsigned = at is None or (signed < log.size and at < now - GROWN_LIMIT)
    return [
        Check(
            "Ledger checkpoint",
            f"{signed:,} of {log.size:,} entries signed" if at else "none published yet",
            at,
            late=bool(log.broken) or is_unsigned,
        ),
        Check(
            "Ledger check",
            "broken" if log.broken else f"all {log.size:,} entries and their rows fit",
            log.checked_at,
            late=bool(log.broken) or log.checked_at is None,
        ),
    ]


def _check(label: str, says: str, at: datetime | None, limit: timedelta, now: datetime) -> Check:
    return Check(label, says, at, late=at is None or at < now - limit)


@dataclass(frozen=True)
class Account:
    """A provider account with its pill."""

    health: AccountHealth
    headline: Headline

    @property
    def lag(self) -> timedelta:
        """How late the latest look is."""
        return timedelta(seconds=self.health.lag_seconds)


_HEALTH: Final = {
    "healthy": Headline("committed", "Healthy", "circle-check"),
    "slow": Headline("waiting", "Slow", "clock-alert"),
    "down": Headline("failed", "Down", "unplug"),
    "paused": Headline("flat", "Paused", "circle-slash"),
    "nobody to ask": Headline("stalled", "Nobody to ask", "user"),
}


def accounts() -> list[Account]:
    """Every account, the worst first."""
    return [Account(health, _HEALTH[health.verdict]) for health in account_health()]


def tile() -> "Tile":
    """The reconcilers' tile: accounts that are slow or down, of all."""
    from console.queries.overview import Tile

    known = [account.health for account in accounts() if account.health.id]
    troubled = [health for health in known if health.verdict in {"slow", "down"}]
    worst = max(troubled, key=lambda health: health.lag_seconds, default=None)
    said = f"of {len(known)} account{'' if len(known) == 1 else 's'} slow or down"
    if worst is not None:
        said = f"{worst.name}: {worst.verdict}; {said}"
    return Tile(
        key="running",
        label="Reconcilers",
        icon="radar",
        count=Count(len(troubled), capped=False),
        href=reverse("reconcilers"),
        note=said if known else "no provider account yet",
        over=bool(troubled),
    )
