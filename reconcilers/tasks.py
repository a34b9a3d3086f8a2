"""Celery only wakes: the work is in the tables, and a wake-up that is lost costs a second."""

from typing import Any

from celery import shared_task

from reconcilers import engine, seats, sweeps

#: An engine goes on for as long as there is work, and makes way for a fresh one after this.
RUN_SECONDS = 20.0


@shared_task(bind=True, name="reconcilers.tasks.wake", ignore_result=True)
def wake(self: Any) -> dict[str, int] | None:
    """Sweep, then work until nothing is due. A second tick in the same second does nothing."""
    scheduler = str(getattr(self.request, "origin", None) or "by hand")
    if not sweeps.take_slot(sweeps.RECONCILE, 1.0, scheduler=scheduler):
        return None
    counts = sweeps.run_once()
    sweeps.finished(sweeps.RECONCILE, counts)
    with seats.taken() as seat:
        if seat is None:
            return counts
        return {**counts, **engine.run(RUN_SECONDS, keep_seat=seat.keep)}
