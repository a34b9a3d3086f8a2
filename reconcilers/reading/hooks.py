"""How the providers' messages come in: what came, what waits, what was flagged or refused."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from reconcilers import registry
from reconcilers.models import HookRefusal, ProviderAccount
from reconcilers.providers.hooks import CAUSES

#: An effect whose operation is still unknown after this long is somebody's business.
OVERDUE_SECONDS: Final = 900

_COUNTS: Final = """
SELECT account_id, standing, count(*), min(received_at), max(last_received_at)
  FROM reconcilers_providerevent
 WHERE received_at > clock_timestamp() - interval '30 days'
 GROUP BY account_id, standing
"""
_OVERDUE: Final = """
SELECT account_id, count(*) FROM reconcilers_providerevent
 WHERE standing IN ('received', 'asked', 'waiting')
   AND received_at < clock_timestamp() - make_interval(secs => %s)
 GROUP BY account_id
"""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Deliveries that were refused for one cause, and what to do about it."""

    cause: str
    says: str
    detail: str
    count: int
    last_at: datetime


@dataclass(frozen=True, kw_only=True)
class HookHealth:
    """One account's address for messages. Counts are of the last 30 days; `flagged` by standing.

    `overdue` is those that nobody could look at, or that no operation fits, for 15 minutes.
    """

    account: str
    title: str
    environment: str
    path: str
    received: int
    last_at: datetime | None
    open: int
    waiting: int
    waiting_since: datetime | None
    overdue: int
    flagged: tuple[tuple[str, int], ...]
    refusals: tuple[Refusal, ...]


def hook_health() -> list[HookHealth]:
    """Every account whose provider sends messages, by name."""
    providers = registry.providers()
    found = ProviderAccount.objects.order_by("kind", "name")
    known = [a for a in found if a.kind in providers and providers[a.kind].takes_hooks]
    if not known:
        return []
    with connection.cursor() as cur:
        cur.execute(_COUNTS)
        counts: dict[Any, dict[str, tuple[Any, ...]]] = {}
        for account_id, standing, *rest in cur.fetchall():
            counts.setdefault(account_id, {})[standing] = tuple(rest)
        cur.execute(_OVERDUE, (OVERDUE_SECONDS,))
        overdue = dict(cur.fetchall())
    refusals: dict[Any, list[HookRefusal]] = {}
    for refusal in HookRefusal.objects.order_by("-last_at"):
        refusals.setdefault(refusal.account_id, []).append(refusal)
    return [
        _health(
            account,
            counts.get(account.id, {}),
            int(overdue.get(account.id, 0)),
            refusals.get(account.id, ()),
        )
        for account in known
    ]


def _health(
    account: ProviderAccount,
    counts: dict[str, tuple[Any, ...]],
    overdue: int,
    refusals: Iterable[HookRefusal],
) -> HookHealth:
    nothing = (0, None, None)
    waiting = counts.get("waiting", nothing)
    flagged = ("wrong_mode", "wrong_account", "unreadable")
    return HookHealth(
        account=account.name,
        title=registry.providers()[account.kind].title,
        environment=account.environment,
        path=f"/hooks/{account.kind}/{account.id}",
        received=sum(each[0] for each in counts.values()),
        last_at=max((each[2] for each in counts.values()), default=None),
        open=sum(counts.get(name, nothing)[0] for name in ("received", "asked")),
        waiting=waiting[0],
        waiting_since=waiting[1],
        overdue=overdue,
        flagged=tuple(
            (name.replace("_", " "), counts[name][0]) for name in flagged if name in counts
        ),
        refusals=tuple(
            Refusal(
                cause=each.cause,
                says=CAUSES.get(each.cause, each.cause),
                detail=each.detail,
                count=each.count,
                last_at=each.last_at,
            )
            for each in refusals
        ),
    )
