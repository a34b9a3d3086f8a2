from django.db import models

from operations.models import Operation


class DueLook(models.Model):
    """When to look next for one operation. The table is the queue; Celery only wakes."""

    operation = models.OneToOneField(
        Operation, models.PROTECT, primary_key=True, related_name="due_look"
    )
    lane = models.TextField(help_text="Provider account id, or `none`: one lane each.")
    due_at = models.DateTimeField()
    leased_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    looks = models.IntegerField(default=0)
    failures = models.IntegerField(default=0)
    purpose = models.TextField(default="settle", help_text="settle, or recheck: count effects again.")
    asked_by = models.TextField(blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["lane", "due_at"], name="duelook_by_lane")]

    def __str__(self) -> str:
        return f"look for {self.operation_id} at {self.due_at}"


class SweepLog(models.Model):
    """Freshness, not process state: when each sweep last finished, and what it did."""

    name = models.TextField(primary_key=True)
    finished_at = models.DateTimeField()
    counts = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.name} at {self.finished_at}"
