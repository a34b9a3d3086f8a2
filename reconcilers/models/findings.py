from django.db import models

from operations.models import Operation
from reconcilers.models.accounts import ProviderAccount

OUTCOMES = ("hit", "empty", "pending", "cannot_look")
CLASSES = ("A", "B", "C", "E", "R", "T", "N")


class Finding(models.Model):
    """What one look at a provider showed, and how and when it looked. Never edited."""

    operation = models.ForeignKey(Operation, models.PROTECT, related_name="findings")
    account = models.ForeignKey(ProviderAccount, models.PROTECT, null=True)
    lookup = models.TextField(help_text="get, list, search, events… as the provider names it.")
    lookup_class = models.TextField()
    outcome = models.TextField()
    reason = models.TextField(blank=True, default="", help_text="Why it could not look.")
    endpoint = models.TextField(blank=True, default="")
    mode = models.TextField(blank=True, default="")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    pages = models.IntegerField(default=0)
    complete = models.BooleanField(default=False, help_text="The whole window was read.")
    control_passed = models.BooleanField(default=False)
    request_id = models.TextField(blank=True, default="")
    objects_seen = models.JSONField(
        default=list, help_text="[{id, status, amount_minor, currency, marker, verified}]."
    )
    answer_sha256 = models.BinaryField(max_length=32, null=True)
    answer = models.BinaryField(null=True, help_text="Raw answer, erasable.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(outcome__in=OUTCOMES), name="finding_outcome_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(lookup_class__in=CLASSES), name="finding_class_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.lookup}: {self.outcome}"
