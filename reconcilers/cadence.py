"""When to look next. Pure but for the dice, which the caller brings.

Fast at first, then towards the settle point, then hourly; every delay is drawn with full jitter
above a small floor, so that an outage's operations do not come back as one wave. Sources: page
"Reconciliation", schedule and limits; a first look about a second after the doubt began.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from reconcilers.evidence import Facts
from reconcilers.exits import Exit
from reconcilers.verdicts import Verdict

FIRST_LOOK: Final = timedelta(seconds=1)
LADDER_SECONDS: Final = (2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 240.0, 480.0)
HOUR: Final = timedelta(hours=1)
NOBODY_TO_ASK: Final = timedelta(minutes=15)
LONGEST_FAILURE_WAIT_SECONDS: Final = 300.0
#: The second of two agreeing reads: 5–30 s after the first.
AGREEING_SECONDS: Final = (6.0, 20.0)
#: After the settle point, so that a wave of operations that share it is spread a little.
AFTER_SETTLE_SECONDS: Final = (0.2, 3.0)
#: Absence and counted effects are looked at again this long after they were concluded.
RECHECKS: Final = (timedelta(hours=24), timedelta(hours=72))
#: A deadline for people where the tool's account names none, counted from the settle point.
DEADLINE: Final = timedelta(hours=24)

#: A number between 0 and 1.
Dice = Callable[[], float]


def next_look(
    facts: Facts,
    verdict: Verdict,
    *,
    now: datetime,
    looks_done: int,
    retry_after_seconds: float | None = None,
    dice: Dice,
) -> datetime:
    """When an UNKNOWN operation is looked at again, whoever it waits for meanwhile."""
    if verdict.kind == "cannot_look":
        return now + failure_wait(facts.failures, retry_after_seconds, dice)
    if verdict.kind == "waiting" and verdict.code == "one_more_read":
        return now + _between(AGREEING_SECONDS, dice)
    if facts.blind:
        # Nobody is asked: it is only seen whether there is somebody by now.
        return now + _jittered(NOBODY_TO_ASK, dice)
    if verdict.needs_person and verdict.kind != "in_flight":
        return now + _jittered(HOUR, dice)
    delay = _ladder(looks_done, dice)
    settles_at = verdict.settles_at
    if settles_at is not None and now < settles_at < now + delay:
        return settles_at + _between(AFTER_SETTLE_SECONDS, dice)
    return now + delay


def next_recheck(
    facts: Facts, *, state: str, since: datetime, now: datetime, looks_done: int, dice: Dice
) -> datetime | None:
    """When effects are counted again: towards S, then +24 h and +72 h; None when that is done.

    An operation that is released meanwhile (PENDING) may still be met by a late effect, so the
    ladder runs for it too; a COMMITTED one is only counted at the fixed points.
    """
    points = [since + after for after in RECHECKS]
    settles_at = facts.settles_at()
    if settles_at is not None:
        points.insert(0, settles_at)
    upcoming = [point for point in points if point > now]
    if state in {"PENDING", "INVOKED"}:
        step = now + _ladder(looks_done, dice)
        if settles_at is not None and step < settles_at:
            return step
    if not upcoming:
        return None
    return upcoming[0] + _between(AFTER_SETTLE_SECONDS, dice)


def failure_wait(failures: int, retry_after_seconds: float | None, dice: Dice) -> timedelta:
    """Exponential with full jitter, never sooner than the provider asked."""
    ceiling = min(2.0 ** min(max(failures, 1), 12), LONGEST_FAILURE_WAIT_SECONDS)
    wait = max(0.5, dice() * ceiling)
    if retry_after_seconds is not None:
        wait = retry_after_seconds + dice() * min(ceiling, 5.0)
    return timedelta(seconds=wait)


def waits_until(exit_: Exit, verdict: Verdict, next_check_at: datetime) -> datetime | None:
    """Until when the operation waits: for a person there is no such instant."""
    return None if exit_.waiting_on == "person" else next_check_at


def _ladder(looks_done: int, dice: Dice) -> timedelta:
    if looks_done >= len(LADDER_SECONDS):
        return _jittered(HOUR, dice)
    return timedelta(seconds=max(0.5, LADDER_SECONDS[looks_done] * (0.25 + 0.75 * dice())))


def _jittered(delay: timedelta, dice: Dice) -> timedelta:
    return delay * (0.75 + 0.25 * dice())


def _between(bounds: tuple[float, float], dice: Dice) -> timedelta:
    low, high = bounds
    return timedelta(seconds=low + (high - low) * dice())
