"""What a finished look leaves in the queue: the next look, a recount of effects, or nothing."""

from datetime import datetime
from typing import Final

from reconcilers import cadence
from reconcilers.dossiers import Dossier
from reconcilers.exits import Exit
from reconcilers.queue import MOST_STRIKES, NO_LANE, Lease, Schedule
from reconcilers.verdicts import Verdict

#: Conclusions that may turn out wrong: they are looked at again.
_REVISABLE_FAILURES: Final = frozenset({"absent", "settled_absent"})
_REVISABLE_RELEASES: Final = frozenset({"absent", "replay"})


def after(
    dossier: Dossier,
    lease: Lease,
    verdict: Verdict,
    exit_: Exit,
    *,
    state: str,
    now: datetime,
    looked: bool,
    retry_after_seconds: float | None,
    dice: cadence.Dice,
) -> Schedule | None:
    """The next entry for an operation that is in `state` by now; None takes it off the queue."""
    facts = dossier.facts
    purpose = "settle" if state == "UNKNOWN" else "recheck"
    fresh = purpose != lease.purpose
    looks = (0 if fresh else lease.looks) + looked
    since = now if fresh else lease.since
    due_at: datetime | None
    if purpose == "settle":
        due_at = cadence.next_look(
            facts,
            verdict,
            now=now,
            looks_done=lease.looks,
            retry_after_seconds=retry_after_seconds,
            dice=dice,
        )
    elif not _is_counted_again(dossier, lease, exit_, state):
        return None
    elif facts.failures:
        due_at = now + cadence.failure_wait(facts.failures, retry_after_seconds, dice)
    else:
        due_at = cadence.next_recheck(
            facts, state=state, since=since, now=now, looks_done=looks, dice=dice
        )
    if dossier.lane != lease.lane:
        # It belongs to another account by now, which has not been asked.
        due_at = now
    if due_at is None and facts.possible_sends < 2:
        return None
    return Schedule(
        operation_id=dossier.operation_id,
        purpose="rest" if due_at is None else purpose,
        due_at=due_at,
        since=since,
        looks=looks,
        failures=facts.failures,
        lane=dossier.lane,
        # Once more in an hour, alone; one more loss and it waits for a person again.
        strikes=MOST_STRIKES - 1 if exit_.reason == "look_kills_worker" else 0,
    )


def _is_counted_again(dossier: Dossier, lease: Lease, exit_: Exit, state: str) -> bool:
    """Whether what was concluded, by us or by others, is worth a second look."""
    if dossier.lane == NO_LANE:
        return False
    if dossier.facts.possible_sends >= 2 or lease.purpose == "recheck":
        return True
    if state == "FAILED":
        return exit_.reason == "absent" or dossier.failure in _REVISABLE_FAILURES
    if state in {"PENDING", "INVOKED"}:
        # Released by this look, or by a person while it was due.
        return exit_.reason in _REVISABLE_RELEASES or exit_.move == "hold"
    return False
