"""Looks become findings, a verdict, and what follows from it: all in one transaction.

Called with the answers of one slice. Evidence is kept whoever brings it; only a holder whose
fence still stands concludes anything from it.
"""

import logging
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import Error, InterfaceError, OperationalError, transaction

from operations import rows
from operations.errors import DomainError, StateConflict
from reconcilers import acting, acting_many, cadence, dossiers, exits, findings, queue, verdicts
from reconcilers.acting import Conclusion
from reconcilers.cases import Case, Listener, Told
from reconcilers.dossiers import Dossier
from reconcilers.evidence import Look
from reconcilers.later_facts import note_later_facts
from reconcilers.queue import Lease

logger = logging.getLogger(__name__)

_LOCK: Final = """
SELECT id FROM operations_operation WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""


def conclude(
    account_id: UUID | None,
    told: Sequence[Told],
    *,
    dice: cadence.Dice = random.random,
    listener: Listener | None = None,
) -> Counter[str]:
    """Store, judge, act and schedule; counts by what happened.

    Together in one commit; where that fails each half is tried by itself, so that one operation's
    trouble is not its neighbours'. What fails alone keeps its lease until it lapses: a strike.
    """
    try:
        with transaction.atomic():
            return _conclude(account_id, told, dice, listener)
    except (Error, DomainError, StateConflict) as error:
        if _is_outage(error):
            raise
        if len(told) == 1:
            logger.exception("no conclusion for operation %s", told[0].lease.operation_id)
            return Counter(failed=1)
    middle = len(told) // 2
    counts: Counter[str] = Counter()
    for half in (told[:middle], told[middle:]):
        counts += conclude(account_id, half, dice=dice, listener=listener)
    return counts


def judge(dossier: Dossier, lease: Lease, new_looks: Sequence[Look], now: datetime) -> Conclusion:
    """The verdict over everything known, and the exit it opens. Writes nothing."""
    tried = bool(new_looks)
    failed = tried and not any(look.finished for look in new_looks)
    failures = lease.failures + 1 if failed else 0 if tried else lease.failures
    dossier = replace(dossier, facts=replace(dossier.facts, failures=failures))
    looks = dossier.looks
    verdict = verdicts.judge(dossier.facts, (*looks, *dossier.replays), now)
    return Conclusion(
        dossier=dossier,
        verdict=verdict,
        exit=exits.way_out(dossier.facts, verdict, looks, now),
        looks=looks,
    )


def _conclude(
    account_id: UUID | None, told: Sequence[Told], dice: cadence.Dice, listener: Listener | None
) -> Counter[str]:
    counts: Counter[str] = Counter()
    with rows.hot_cursor() as cur:
        held = queue.still_held(cur, [one.lease for one in told])
        findings.store(
            cur,
            account_id,
            [(one.lease.operation_id, look) for one in told if one.kept for look in one.looks],
        )
        mine = [one for one in told if one.lease.operation_id in held]
        counts["stale"] = len(told) - len(mine)
        ids = [one.lease.operation_id for one in mine]
        cur.execute(_LOCK, (ids,))
        now = rows.clock(cur)
        found = dossiers.load(cur, ids)
        cases = [_case(found[one.lease.operation_id], one, now, dice) for one in mine]
        plain = acting_many.carry_out(cur, cases)
        next_ones = []
        for case in cases:
            state = plain.get(case.operation_id) or _carry_out(cur, case)
            schedule = case.schedule_in(state)
            if schedule is not None:
                next_ones.append(schedule)
            concluded = case.concluded
            if listener is not None:
                transaction.on_commit(partial(listener, concluded, state))
            counts[concluded.exit.move if state != "UNKNOWN" else concluded.verdict.kind] += 1
        queue.finish(cur, next_ones)
        queue.forget(cur, {*ids}.difference(after.operation_id for after in next_ones))
    return counts


def _case(dossier: Dossier, told: Told, now: datetime, dice: cadence.Dice) -> Case:
    if not told.kept:
        dossier = replace(dossier, looks=(*dossier.looks, *told.looks))
    concluded = judge(dossier, told.lease, told.looks, now)
    if told.attention:
        concluded = acting.for_a_person(concluded, told.attention)
    return Case(concluded, told, now, dice)


def _carry_out(cur: Any, case: Case) -> str:
    """One that is not plain; the state afterwards."""
    case.concluded, state = acting.act(cur, case.concluded)
    if state == "UNKNOWN":
        acting.hold(cur, case.concluded, case.schedule_in(state))
    elif case.concluded.exit.incident:
        acting.open_incident(cur, case.concluded)
    elif case.concluded.dossier.facts.state == "COMMITTED":
        note_later_facts(cur, case.concluded.dossier, case.told.looks)
    return state


def _is_outage(error: Exception) -> bool:
    """Postgres is away, as opposed to one transaction that lost against another."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return not state.startswith("40")
