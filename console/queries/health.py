"""Is the machine room alive? Each check says what it knows and how old that is."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.urls import reverse

from console.search.operations import Count
from operations.models import SequencerState
from reconcilers.models import DueLook, ProviderAccount, SweepLog

if TYPE_CHECKING:
    from console.queries.overview import Tile

#: The sequencer seals about ten times a second and sweeps each second.
SEQUENCER_LIMIT: Final = timedelta(seconds=15)
RECONCILER_LIMIT: Final = timedelta(minutes=2)
#: A look that is this late means that nobody looks.
LAG_LIMIT: Final = timedelta(minutes=10)


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


def _check(label: str, says: str, at: datetime | None, limit: timedelta, now: datetime) -> Check:
    return Check(label, says, at, late=at is None or at < now - limit)


def troubled_accounts(now: datetime) -> list[str]:
    """Accounts whose looks are overdue."""
    late = DueLook.objects.filter(due_at__lt=now - LAG_LIMIT).exclude(lane="none")
    return sorted(set(late.values_list("lane", flat=True)))


def tile() -> "Tile":
    """The reconcilers' tile: accounts that are behind, of all."""
    from console.queries import clock
    from console.queries.overview import Tile

    late = troubled_accounts(clock.now())
    accounts = ProviderAccount.objects.count()
    said = f"of {accounts} account{'' if accounts == 1 else 's'} behind"
    return Tile(
        key="running",
        label="Reconcilers",
        icon="radar",
        count=Count(len(late), capped=False),
        href=reverse("reconcilers"),
        note=said if accounts else "no provider account yet",
        over=bool(late),
    )
