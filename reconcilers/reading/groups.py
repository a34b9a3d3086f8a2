"""What is UNKNOWN, by cause: one outage is one group, however many operations it left behind."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from operations.actors import Scope
from reconcilers import queue
from reconcilers.models import ProviderAccount

#: Where a group belongs on the triage page.
CONFLICT, PERSON, UNREACHABLE, WAITING, NEW = (
    "conflict",
    "needs a person",
    "provider unreachable",
    "waiting for horizon",
    "not looked yet",
)
_SHELVES: Final = {
    "conflict": CONFLICT,
    "duplicate": CONFLICT,
    "needs_human": PERSON,
    "absent": PERSON,
    "cannot_look": UNREACHABLE,
    "waiting": WAITING,
    "in_flight": WAITING,
}
_ORDER: Final = (CONFLICT, PERSON, UNREACHABLE, WAITING, NEW)

_GROUPS: Final = """
WITH unknown AS (
    SELECT o.id, o.tool, o.amount_minor, upper(o.currency) AS currency, o.run_id,
           o.verdict ->> 'kind' AS kind, coalesce(o.verdict ->> 'code', '') AS code,
           o.verdict ->> 'sentence' AS sentence, coalesce(d.lane, %(none)s) AS lane, s.since,
           d.due_at, (o.verdict ->> 'settles_at')::timestamptz AS settles_at,
           o.waiting_on = 'person' AS for_person
      FROM operations_standing s
      JOIN operations_operation o ON o.id = s.operation_id
      LEFT JOIN reconcilers_duelook d ON d.operation_id = o.id
     WHERE s.state = 'UNKNOWN' AND {scope}
     LIMIT %(most)s
), money AS (
    SELECT lane, kind, code, jsonb_object_agg(currency, total) AS at_risk
      FROM (SELECT lane, kind, code, currency, sum(amount_minor) AS total FROM unknown
             WHERE amount_minor IS NOT NULL AND currency IS NOT NULL
             GROUP BY lane, kind, code, currency) AS sums
     GROUP BY lane, kind, code
)
SELECT u.lane, u.kind, u.code, count(*), count(DISTINCT u.run_id), array_agg(DISTINCT u.tool),
       min(u.since), min(u.due_at), min(u.settles_at), bool_or(u.for_person), min(u.sentence),
       max(m.at_risk::text)
  FROM unknown u LEFT JOIN money m ON (m.lane, m.code) = (u.lane, u.code)
                                  AND m.kind IS NOT DISTINCT FROM u.kind
 GROUP BY u.lane, u.kind, u.code
"""


@dataclass(frozen=True, kw_only=True)
class UnknownGroup:
    """Operations that are UNKNOWN for one reason at one account. `sentence` is one of theirs."""

    account: str
    account_name: str
    verdict: str
    code: str
    shelf: str
    count: int
    runs: int
    tools: tuple[str, ...]
    at_risk: dict[str, int]
    oldest_since: datetime
    next_look_at: datetime | None
    settles_at: datetime | None
    needs_person: bool
    sentence: str


def unknown_groups(
    scopes: Iterable[Scope] | None = None, *, most: int = 10_000
) -> list[UnknownGroup]:
    """The groups of these scopes (all where none are given), what a person must see first."""
    bound: dict[str, Any] = {"none": queue.NO_LANE, "most": most}
    condition = "true"
    if scopes is not None:
        pairs = list(scopes)
        condition = """(s.environment, s.namespace) IN
            (SELECT * FROM unnest(%(environments)s::text[], %(namespaces)s::text[]))"""
        bound |= {
            "environments": [scope.environment for scope in pairs],
            "namespaces": [scope.namespace for scope in pairs],
        }
    names = {str(pk): name for pk, name in ProviderAccount.objects.values_list("pk", "name")}
    with connection.cursor() as cur:
        cur.execute(_GROUPS.format(scope=condition), bound)
        groups = [_group(row, names) for row in cur.fetchall()]
    return sorted(groups, key=lambda group: (_ORDER.index(group.shelf), group.oldest_since))


def _group(row: tuple[Any, ...], names: dict[str, str]) -> UnknownGroup:
    lane, kind, code, count, runs, tools, since, due_at, settles_at, person, sentence, money = row
    shelf = _SHELVES.get(kind or "", NEW)
    return UnknownGroup(
        account="" if lane == queue.NO_LANE else lane,
        account_name=names.get(lane, ""),
        verdict=kind or "",
        code=code,
        shelf=PERSON if person and shelf in {WAITING, NEW} else shelf,
        count=int(count),
        runs=int(runs),
        tools=tuple(tools),
        at_risk={name: int(total) for name, total in json.loads(money or "{}").items()},
        oldest_since=since,
        next_look_at=due_at,
        settles_at=settles_at,
        needs_person=bool(person),
        sentence=sentence or "The provider has not been asked yet.",
    )
