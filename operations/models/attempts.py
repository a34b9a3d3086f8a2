from django.db import models

from operations.models.intents import Operation

#: live: holds the lease. not_sent / no_effect: proved to have done nothing. in_doubt: may have.
#: covered: what it did, if anything, is the effect that a replay under the same key returned.
STANDINGS = ("live", "not_sent", "no_effect", "in_doubt", "covered", "committed")


class Attempt(models.Model):
    """One try. Its number is the fencing token; doubt belongs to it, not to the operation."""

    operation = models.ForeignKey(
        Operation, models.PROTECT, related_name="attempt_set", db_index=False
    )
    number = models.IntegerField()
    attempt_id = models.TextField(help_text="The sender's own id for this try.")
    origin = models.TextField(
        default="claim", help_text="claim, record or hearsay (never granted)."
    )
    layer = models.TextField(blank=True, default="")
    worker = models.TextField(blank=True, default="")
    runtime = models.UUIDField(null=True)
    versions = models.JSONField(
        null=True, help_text="agent, prompt, code where they differ from the run's."
    )
    grant = models.TextField(null=True, help_text="Handle of the approval that this attempt spent.")

    standing = models.TextField(default="live")
    permanent = models.BooleanField(null=True)
    fenced = models.BooleanField(default=False)
    granted_at = models.DateTimeField()
    lease_seconds = models.IntegerField()
    lease_expires_at = models.DateTimeField()
    send_token_digest = models.BinaryField(max_length=32, null=True)
    permit_at = models.DateTimeField(null=True)
    permit_until = models.DateTimeField(null=True)
    sending_at = models.DateTimeField(null=True)
    emits_until = models.DateTimeField(
        null=True, help_text="t_emit: latest instant at which its bytes could still leave."
    )
    ended_at = models.DateTimeField(null=True)
    outcome = models.TextField(null=True, help_text="committed, failed, unknown, lapsed.")
    provider_ref = models.TextField(null=True)
    result_sha256 = models.BinaryField(max_length=32, null=True)
    error_type = models.TextField(null=True)
    http_status = models.IntegerField(null=True)
    error_replayed = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "number"], name="attempt_number_is_unique"
            ),
            models.UniqueConstraint(
                fields=["operation"],
                condition=models.Q(standing="live"),
                name="attempt_is_live_once_per_operation",
            ),
            models.CheckConstraint(
                condition=models.Q(standing__in=STANDINGS), name="attempt_standing_is_known"
            ),
        ]
        indexes = [
            models.Index(
                fields=["granted_at"],
                condition=models.Q(number__gte=2),
                name="attempt_again_by_age",
            )
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.operation_id}"
