from django.db import models

from operations.models import Operation
from reconcilers.models.accounts import ProviderAccount

OUTCOMES = ("hit", "empty", "pending", "cannot_look")
CLASSES = ("A", "B", "C", "E", "R", "T", "N")


class Finding(models.Model):
    """What one look at a provider showed, and how and when it looked. Never edited."""

    operation = models.ForeignKey(Operation, models.PROTECT, related_name="findings")
    account = models.ForeignKey(ProviderAccount, models.PROTECT, null=True, db_index=False)
    lookup = models.TextField(help_text="get, list, search, events… as the provider names it.")
    lookup_class = models.TextField()
    outcome = models.TextField()
    reason = models.TextField(blank=True, default="", help_text="Why it could not look.")
    endpoint = models.TextField(blank=True, default="")
    account_seen = models.TextField(blank=True, default="", help_text="Account id that answered.")
    mode = models.TextField(blank=True, default="", help_text="live or test, as answered.")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    pages = models.IntegerField(default=0)
    rows = models.IntegerField(default=0, help_text="Objects read, whether ours or not.")
    complete = models.BooleanField(default=False, help_text="The whole window was read.")
    exhaustive = models.BooleanField(
        default=False, help_text="Would have met any object of this intent, whatever its id."
    )
    covers_from = models.DateTimeField(null=True, help_text="Oldest instant the read reached.")
    control_passed = models.BooleanField(default=False)
    request_id = models.TextField(blank=True, default="")
    objects_seen = models.JSONField(
        default=list,
        help_text="Sightings: id, kind, status, stage, amount_minor, currency, marker…",
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
            models.CheckConstraint(
                condition=~models.Q(outcome="cannot_look") | ~models.Q(reason=""),
                name="finding_says_why_it_could_not_look",
            ),
        ]
        indexes = [
            models.Index(fields=["account", "ended_at"], name="finding_by_account"),
            models.Index(
                fields=["account", "-ended_at"],
                condition=models.Q(outcome="hit"),
                name="finding_hit_by_account",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.lookup}: {self.outcome}"
