"""A look that is wanted now: put on the queue, due at once, whatever the schedule says."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from operations import catalogue, states
from reconcilers import accounts, queue
from reconcilers.models import ProviderAccount

#: People press twice: a look that is being made answers for both.
_ASK: Final = """
INSERT INTO reconcilers_duelook AS due
    (operation_id, lane, purpose, due_at, since, fence, looks, failures, strikes, holder, asked_by)
VALUES (%(op)s, %(lane)s, %(purpose)s, clock_timestamp(), clock_timestamp(), 0, 0, 0, 0, '',
        %(actor)s)
ON CONFLICT (operation_id) DO UPDATE
   SET due_at = clock_timestamp(), asked_by = excluded.asked_by, lane = excluded.lane,
       purpose = CASE WHEN due.purpose = 'rest' THEN excluded.purpose ELSE due.purpose END
RETURNING due_at, leased_until >= clock_timestamp()
"""
_OPERATIONS: Final = """
SELECT id, environment, namespace, tool, state FROM operations_operation
 WHERE id = ANY(%s) ORDER BY id
"""

Tool = tuple[str, str, str]


def ask_for(
    cur: Any, operation_ids: Sequence[UUID], *, actor: str
) -> dict[UUID, tuple[datetime, bool, str]]:
    """Make these looks due; (when, whether one is being made already, lane) of each that exists."""
    if not operation_ids:
        return {}
    cur.execute(_OPERATIONS, (list(operation_ids),))
    found = cur.fetchall()
    lanes = lanes_of(cur, {(row[1], row[2], row[3]) for row in found})
    asked = {}
    for op_id, environment, namespace, tool, state in found:
        lane = lanes[environment, namespace, tool]
        # For an UNKNOWN operation the look settles it; for any other its effects are counted.
        purpose = "settle" if state == states.UNKNOWN else "recheck"
        cur.execute(_ASK, {"op": op_id, "lane": lane, "purpose": purpose, "actor": actor})
        due_at, is_looking = cur.fetchone()
        asked[op_id] = (due_at, bool(is_looking), lane)
    return asked


def lanes_of(cur: Any, wanted: Iterable[Tool]) -> dict[Tool, str]:
    """The lane of each (environment, namespace, tool): its account, or the lane of none."""
    tools = catalogue.current(cur)
    here: dict[tuple[str, str], list[ProviderAccount]] = {}
    for account in ProviderAccount.objects.all():
        here.setdefault((account.environment, account.namespace), []).append(account)
    lanes = {}
    for environment, namespace, tool in wanted:
        facts = tools.facts(tool)
        chosen, _ = accounts.resolve(
            here.get((environment, namespace), []),
            reconciler=facts.reconciler,
            provider=facts.provider,
        )
        lanes[environment, namespace, tool] = (
            str(chosen.id) if chosen is not None else queue.NO_LANE
        )
    return lanes
