"""What is measured at each account beside what is configured: horizons, and reads against limits.

A horizon is how long an effect can stay unseen. Absence is judged by the configured one; that the
measured one comes near it is a reason to raise it.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import connection

from operations import catalogue
from operations.catalogue import ToolFacts
from reconcilers.models import ProviderAccount

#: The newest hits that a measurement rests on.
_HITS: Final = 500

# Of an effect that was found in the end: the last complete look that had missed it.
_MEASURED: Final = """
SELECT a.id::text, count(*),
       max(extract(epoch FROM missed.at - coalesce(o.first_sent_at, o.created_at)))
  FROM reconcilers_provideraccount a
 CROSS JOIN LATERAL (SELECT operation_id, started_at FROM reconcilers_finding
                      WHERE account_id = a.id AND outcome = 'hit'
                      ORDER BY ended_at DESC LIMIT %s) AS hit
  JOIN operations_operation o ON o.id = hit.operation_id
  LEFT JOIN LATERAL (SELECT max(f.started_at) AS at FROM reconcilers_finding f
                      WHERE f.operation_id = hit.operation_id AND f.outcome = 'empty'
                        AND f.complete AND f.started_at < hit.started_at) AS missed ON true
 GROUP BY a.id
"""
# One window answers many: its pages were read once, under one request id.
_READS: Final = """
SELECT account_id::text, sum(pages)
  FROM (SELECT DISTINCT account_id, request_id, pages FROM reconcilers_finding
         WHERE ended_at > clock_timestamp() - interval '1 minute' AND account_id IS NOT NULL
           AND request_id <> '' AND lookup <> 'webhook') AS read
 GROUP BY account_id
"""


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """`measured`: the longest that one of `found` effects stayed unseen, None where none did.

    `configured` is the longest request lifetime that tools of this account claim for their
    provider, None where no tool names it.
    """

    found: int = 0
    measured: timedelta | None = None
    configured: timedelta | None = None

    @property
    def is_passed(self) -> bool:
        """Whether an effect was seen later than is configured: absence may be concluded wrongly."""
        return None not in (self.measured, self.configured) and (
            (self.measured or timedelta(0)) > (self.configured or timedelta(0))
        )


NOTHING_MEASURED: Final = Horizon()


def horizons() -> dict[str, Horizon]:
    """By account id."""
    with connection.cursor() as cur:
        cur.execute(_MEASURED, (_HITS,))
        measured = {lane: (int(found), seconds) for lane, found, seconds in cur.fetchall()}
        tools = list(catalogue.current(cur).tools.values())
    return {
        str(account.id): _horizon(account, tools, *measured.get(str(account.id), (0, None)))
        for account in ProviderAccount.objects.all()
    }


def reads_last_minute() -> dict[str, int]:
    """Requests that were answered in the last minute, by account id."""
    with connection.cursor() as cur:
        cur.execute(_READS)
        return {lane: int(pages or 0) for lane, pages in cur.fetchall()}


def _horizon(account: ProviderAccount, tools: list[ToolFacts], found: int, seconds: Any) -> Horizon:
    claimed = [
        tool.provider_max_seconds
        for tool in tools
        if (tool.reconciler or tool.provider) in {account.name, account.kind}
    ]
    return Horizon(
        found=found,
        measured=None if seconds is None else timedelta(seconds=float(seconds)),
        configured=timedelta(seconds=max(claimed)) if claimed else None,
    )
