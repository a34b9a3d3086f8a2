"""Looks become findings, a verdict, and what follows from it: all in one transaction.

Called with the answers of one slice. Evidence is kept whoever brings it; only a holder whose
fence still stands concludes anything from it.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import Error, InterfaceError, OperationalError, transaction

from operations import incidents, rows, settling
from operations.actors import RECONCILER
from operations.errors import DomainError, StateConflict
from reconcilers import cadence, dossiers, exits, findings, queue, schedules, telling, verdicts
from reconcilers.dossiers import Dossier
from reconcilers.evidence import Look
from reconcilers.exits import Exit
from reconcilers.later_facts import note_later_facts
from reconcilers.providers.base import Answer
from reconcilers.queue import Lease, Schedule
from reconcilers.verdicts import Verdict

logger = logging.getLogger(__name__)

_LOCK: Final = """
SELECT id FROM operations_operation WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""


@dataclass(frozen=True, kw_only=True)
class Told:
    """One question's result on its way to a conclusion.

    `attention` calls a person instead of judging; looks that are not `kept` were never made (the
    provider was left alone); `unasked` goes back to the queue as it came.
    """

    lease: Lease
    looks: tuple[Look, ...]
    attention: str = ""
    kept: bool = True
    unasked: bool = False


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What would follow, or did: shown by a dry run, carried out otherwise."""

    dossier: Dossier
    verdict: Verdict
    exit: Exit
    looks: tuple[Look, ...]


#: Told of each conclusion once it is committed, with the state that the operation is in then.
Listener = Callable[["Conclusion", str], None]


def conclude(
    account_id: UUID | None,
    told: Sequence[Told],
    *,
    dice: cadence.Dice = random.random,
    listener: Listener | None = None,
) -> Counter[str]:
    """Store, judge, act and schedule; counts by what happened.

    Together in one commit; where that fails each is tried alone, so that one operation's trouble
    is not its neighbours'. What fails alone keeps its lease until it lapses: a strike.
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
    counts: Counter[str] = Counter()
    for one in told:
        counts += conclude(account_id, [one], dice=dice, listener=listener)
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
        next_ones: list[Schedule] = []
        for one in mine:
            dossier = found[one.lease.operation_id]
            if not one.kept:
                dossier = replace(dossier, looks=(*dossier.looks, *one.looks))
            schedule = _settle(cur, dossier, one, now, dice, counts, listener)
            if schedule is not None:
                next_ones.append(schedule)
        queue.finish(cur, next_ones)
        queue.forget(cur, [key for key in ids if key not in {n.operation_id for n in next_ones}])
    return counts


def _settle(
    cur: Any,
    dossier: Dossier,
    told: Told,
    now: datetime,
    dice: cadence.Dice,
    counts: Counter[str],
    listener: Listener | None,
) -> Schedule | None:
    """Carry out one conclusion; what to look at next, or None where nothing is left to ask."""
    concluded = judge(dossier, told.lease, told.looks, now)
    if told.attention:
        concluded = _for_a_person(concluded, told.attention)
    try:
        with _revocable(concluded.exit):
            state = _act(cur, concluded)
    except DomainError as refused:
        # The floor below knows something that forbids this exit; a person decides then.
        concluded = _for_a_person(concluded, refused.code.lower(), detail=refused.detail)
        state = dossier.facts.state
    retry_after = max((look.retry_after_seconds or 0.0 for look in told.looks), default=0.0)
    schedule = schedules.after(
        concluded.dossier,
        told.lease,
        concluded.verdict,
        concluded.exit,
        state=state,
        now=now,
        looked=bool(told.looks),
        retry_after_seconds=retry_after or None,
        dice=dice,
    )
    if told.unasked and schedule is not None:
        schedule = replace(schedule, due_at=now)
    if state == "UNKNOWN":
        _hold(cur, concluded, schedule)
    elif concluded.exit.incident:
        _open_incident(cur, concluded)
    elif dossier.facts.state == "COMMITTED":
        note_later_facts(cur, dossier, told.looks)
    if listener is not None:
        transaction.on_commit(partial(listener, concluded, state))
    counts[concluded.exit.move if state != "UNKNOWN" else concluded.verdict.kind] += 1
    return schedule


def _revocable(exit_: Exit) -> AbstractContextManager[object]:
    """A savepoint where the floor below may refuse; a commit it never refuses."""
    return transaction.atomic() if exit_.move in {"release", "settle_absent"} else nullcontext()


def _act(cur: Any, concluded: Conclusion) -> str:
    """Commit, release or settle; the state afterwards."""
    dossier, verdict, exit_ = concluded.dossier, concluded.verdict, concluded.exit
    if exit_.move == "hold":
        return dossier.facts.state
    told = telling.evidence(dossier, verdict, concluded.looks)
    op_id = dossier.operation_id
    if verdict.kind != dossier.verdict_kind and exit_.reason != "safe":
        # The verdict stands on the operation before what follows from it: a release is judged by
        # it, and it is what pages show afterwards.
        settling.set_verdict(
            cur,
            op_id,
            telling.verdict_document(
                dossier, verdict, concluded.looks, exit_=exit_, next_check_at=None
            ),
            actor=RECONCILER,
        )
    if exit_.move == "commit":
        seen = verdict.sightings[0]
        settling.settle_committed(
            cur,
            op_id,
            actor=RECONCILER,
            provider_ref=seen.id,
            effect_status=seen.status or None,
            evidence=told,
            late=verdict.kind == "committed_late",
        )
        return "COMMITTED"
    if exit_.move == "settle_absent":
        settling.settle_absent(cur, op_id, actor=RECONCILER, evidence=told)
        return "FAILED"
    settling.release(cur, op_id, reason=exit_.reason, actor=RECONCILER, evidence=told)
    return "PENDING"


def _hold(cur: Any, concluded: Conclusion, schedule: Schedule | None) -> None:
    """It stays UNKNOWN: say why, until when, and whom it waits for."""
    next_check_at = schedule.due_at if schedule else None
    document = telling.verdict_document(
        concluded.dossier,
        concluded.verdict,
        concluded.looks,
        exit_=concluded.exit,
        next_check_at=next_check_at,
    )
    settling.set_verdict(
        cur,
        concluded.dossier.operation_id,
        document,
        actor=RECONCILER,
        waiting_on=concluded.exit.waiting_on or "look",
        waiting_until=next_check_at if concluded.exit.waiting_on != "person" else None,
    )
    if concluded.exit.incident:
        _open_incident(cur, concluded)


def _open_incident(cur: Any, concluded: Conclusion) -> None:
    """Once per operation and set of objects; a person sees every id and what could be done."""
    op = rows.lock(cur, op_id=concluded.dossier.operation_id)
    if op is None:
        return
    # Named as a report of the same second object would name it, so that both are one incident.
    others = sorted(set(concluded.verdict.object_ids) - {op.provider_ref})
    incidents.open_incident(
        cur,
        concluded.exit.incident,
        cause=f"{op.id}:{','.join(others)}",
        actor=RECONCILER,
        op=op,
        details={
            "found_by": "reconciler",
            "objects": telling.objects(concluded.verdict.sightings),
            "differences": list(concluded.verdict.differences),
            "asked_for": {"amount_minor": op.amount_minor, "currency": op.currency},
            "proposal": "compensation",
        },
    )


def _is_outage(error: Exception) -> bool:
    """Postgres is away, as opposed to one transaction that lost against another."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return not state.startswith("40")


def _for_a_person(concluded: Conclusion, reason: str, *, detail: str = "") -> Conclusion:
    """Nothing is done automatically; `reason` stands in the verdict."""
    return replace(
        concluded,
        verdict=replace(concluded.verdict, kind="needs_human", code=reason, escalate=""),
        exit=Exit(move="hold", reason=reason, waiting_on="person", detail=detail),
    )


__all__ = ["Answer", "Conclusion", "Told", "conclude", "judge"]
