"""One answered question on its way to a conclusion, and what is left in the queue afterwards."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from reconcilers import cadence, schedules
from reconcilers.acting import Conclusion
from reconcilers.evidence import Look
from reconcilers.queue import Lease, Schedule

#: Told of each conclusion once it is committed, with the state that the operation is in then.
Listener = Callable[[Conclusion, str], None]


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


@dataclass
class Case:
    """What was told, and what is concluded from it. The dice are cast once for each state."""

    concluded: Conclusion
    told: Told
    now: datetime
    dice: cadence.Dice
    _schedules: dict[tuple[str, str], Schedule | None] = field(default_factory=dict)

    @property
    def operation_id(self) -> UUID:
        """Whose case it is."""
        return self.told.lease.operation_id

    def schedule_in(self, state: str) -> Schedule | None:
        """What to look at next once it is in `state`; None where nothing is left to ask."""
        key = (state, self.concluded.exit.reason)
        if key not in self._schedules:
            self._schedules[key] = self._schedule(state)
        return self._schedules[key]

    def _schedule(self, state: str) -> Schedule | None:
        concluded, told = self.concluded, self.told
        retry_after = max((look.retry_after_seconds or 0.0 for look in told.looks), default=0.0)
        schedule = schedules.after(
            concluded.dossier,
            told.lease,
            concluded.verdict,
            concluded.exit,
            state=state,
            now=self.now,
            looked=bool(told.looks),
            retry_after_seconds=retry_after or None,
            dice=self.dice,
        )
        if told.unasked and schedule is not None:
            schedule = replace(schedule, due_at=self.now)
        return schedule
