from django.db import models

from operations.models import Operation

#: settle: the operation is UNKNOWN. recheck: it is not, and its effects are counted once more.
#: rest: nothing is left to ask; the row stays so that no sweep begins again.
PURPOSES = ("settle", "recheck", "rest")


class DueLook(models.Model):
    """When to look next for one operation. The table is the queue; Celery only wakes."""

    operation = models.OneToOneField(
        Operation, models.PROTECT, primary_key=True, related_name="due_look"
    )
    lane = models.TextField(help_text="Provider account id, or `none`: one lane each.")
    purpose = models.TextField(default="settle")
    due_at = models.DateTimeField(null=True, help_text="None while at rest.")
    since = models.DateTimeField(
        help_text="When this purpose began: lag and deadline count from it."
    )
    leased_until = models.DateTimeField(null=True)
    holder = models.TextField(blank=True, default="", help_text="The slice that holds the lease.")
    fence = models.BigIntegerField(default=0, help_text="Rises with each lease; stale writes miss.")
    looks = models.IntegerField(default=0, help_text="Finished since `since`.")
    failures = models.IntegerField(default=0, help_text="Looks in a row that could not look.")
    strikes = models.IntegerField(default=0, help_text="Leases in a row that never came back.")
    asked_by = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(purpose__in=PURPOSES), name="duelook_purpose_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(purpose="rest") ^ models.Q(due_at__isnull=False),
                name="duelook_is_due_until_it_rests",
            ),
        ]
        indexes = [
            models.Index(
                fields=["lane", "due_at"],
                condition=models.Q(due_at__isnull=False),
                name="duelook_by_lane",
            )
        ]

    def __str__(self) -> str:
        return f"look for {self.operation_id} at {self.due_at}"


class SweepLog(models.Model):
    """Freshness, not process state: when each sweep last finished, and what it did.

    `slot` makes a run unique per period of the database's clock, however many schedulers tick.
    """

    name = models.TextField(primary_key=True)
    slot = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    counts = models.JSONField(default=dict)
    refused = models.BigIntegerField(default=0, help_text="Ticks in a slot that was taken.")
    schedulers = models.JSONField(default=dict, help_text="Who ticked, and when last.")

    def __str__(self) -> str:
        return f"{self.name} at {self.finished_at}"


class EngineSeat(models.Model):
    """Room for one running engine. As many rows as seats were ever taken; few by design."""

    number = models.PositiveSmallIntegerField(primary_key=True)
    holder = models.TextField()
    held_until = models.DateTimeField()

    def __str__(self) -> str:
        return f"engine {self.number}"
