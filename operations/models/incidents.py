from django.db import models
from django.db.models.functions import Now

from operations import states
from operations.ids import handle, uuid7
from operations.models.intents import Operation
from operations.models.runs import Run
from operations.models.scoped import Scoped


class Incident(Scoped):
    """A broken promise that a person must see: beside the state, never instead of it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.TextField()
    operation = models.ForeignKey(Operation, models.PROTECT, null=True, related_name="incidents")
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="incidents")
    cause = models.TextField(help_text="What makes it the same incident when met again.")
    details = models.JSONField(default=dict, help_text="Ids, digests and words; never args.")
    times_seen = models.IntegerField(default=1)
    opened_at = models.DateTimeField(db_default=Now())
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.TextField(null=True)
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.TextField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "namespace", "kind", "cause"],
                name="incident_is_one_per_cause",
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=states.INCIDENT_KINDS), name="incident_kind_is_known"
            ),
        ]
        indexes = [
            models.Index(
                fields=["environment", "namespace", "id"],
                condition=models.Q(resolved_at=None),
                name="incident_open_by_age",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.handle}"

    @property
    def handle(self) -> str:
        return handle("inc", self.id)
