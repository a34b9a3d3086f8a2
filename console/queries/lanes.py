"""One line for each provider account: backlog, lag, last answer, last failure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from console.presentation.words import Headline
from reconcilers import registry
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import Provider

_BACKLOG: Final = """
SELECT lane, count(*), count(*) FILTER (WHERE due_at < %s), min(due_at), max(failures)
  FROM reconcilers_duelook GROUP BY lane
"""
#: The newest looks only: the table grows for ever.
_LAST: Final = """
WITH newest AS (SELECT * FROM reconcilers_finding ORDER BY id DESC LIMIT 5000)
SELECT account_id, max(ended_at) FILTER (WHERE outcome <> 'cannot_look'),
       max(ended_at) FILTER (WHERE outcome = 'cannot_look'),
       (array_agg(reason ORDER BY id DESC) FILTER (WHERE outcome = 'cannot_look'))[1]
  FROM newest WHERE account_id IS NOT NULL GROUP BY account_id
"""


@dataclass(frozen=True)
class Lane:
    """One provider account. `account` is None for operations that nobody can be asked about."""

    account: ProviderAccount | None
    title: str
    backlog: int
    overdue: int
    oldest_due: datetime | None
    failures: int
    answered_at: datetime | None
    failed_at: datetime | None
    reason: str

    @property
    def headline(self) -> Headline:
        """How it is, in a word and a shape."""
        if self.account is None:
            return Headline("stalled", "Nobody to ask", "user")
        if self.account.paused_at:
            return Headline("flat", "Paused", "circle-slash")
        if self.failed_at and (self.answered_at is None or self.failed_at > self.answered_at):
            return Headline("waiting", "No answer", "unplug")
        if self.overdue:
            return Headline("waiting", "Behind", "clock-alert")
        if self.answered_at is None:
            return Headline("pending", "Never asked", "circle-dashed")
        return Headline("committed", "Healthy", "circle-check")


def lanes(now: datetime) -> list[Lane]:
    """Accounts in order of name; then what has none, if anything waits there."""
    with connection.cursor() as cur:
        cur.execute(_BACKLOG, (now,))
        backlog = {row[0]: row[1:] for row in cur.fetchall()}
        cur.execute(_LAST)
        last = {row[0]: row[1:] for row in cur.fetchall()}
    listed = [
        _lane(account, backlog.get(str(account.pk)), last.get(account.pk))
        for account in ProviderAccount.objects.order_by("environment", "namespace", "name")
    ]
    if backlog.get("none"):
        listed.append(_lane(None, backlog["none"], None))
    return listed


def _lane(
    account: ProviderAccount | None, waiting: tuple[Any, ...] | None, last: tuple[Any, ...] | None
) -> Lane:
    number, overdue, oldest, failures = waiting or (0, 0, None, 0)
    answered_at, failed_at, reason = last or (None, None, "")
    return Lane(
        account=account,
        title=account.name if account else "Without an account",
        backlog=number,
        overdue=overdue,
        oldest_due=oldest,
        failures=failures,
        answered_at=answered_at,
        failed_at=failed_at,
        reason=reason or "",
    )


def kinds() -> list[Provider]:
    """Providers that this installation knows."""
    return list(registry.providers().values())
