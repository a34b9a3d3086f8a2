from django.db import models

from approvals.models.requests import ApprovalRequest


class Grant(models.Model):
    """A single-use permission. A consumed or dead row is a tombstone and is never purged."""

    jti = models.TextField(primary_key=True)
    request = models.ForeignKey(ApprovalRequest, models.PROTECT, related_name="grants")
    claim_id = models.TextField(help_text="Who asked for it: the same claim gets the same grant.")
    runtime = models.UUIDField(help_text="The only audience: the API key that may present it.")
    args_sha256 = models.TextField()
    epoch = models.IntegerField()
    token = models.TextField(help_text="JWS compact, as it was handed out.")
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    consumed_at = models.DateTimeField(null=True)
    consumed_claim_id = models.TextField(null=True)
    attempt_number = models.IntegerField(null=True)
    receipt = models.JSONField(null=True, help_text="What the consumer was told.")
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(consumed_at__isnull=True)
                ^ models.Q(consumed_claim_id__isnull=False),
                name="grant_names_who_consumed_it",
            ),
            # One approval, one unspent grant: two of them could be spent for one decision.
            models.UniqueConstraint(
                fields=["request"],
                condition=models.Q(consumed_at=None, revoked_at=None),
                name="grant_is_unspent_once_per_request",
            ),
        ]

    def __str__(self) -> str:
        return f"grant {self.jti}"


class GrantEpoch(models.Model):
    """One row. Raised by a restore or a failover, which kills every grant that was not consumed."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    epoch = models.IntegerField(default=1)
    cluster = models.TextField(
        db_default="", help_text="Identity and timeline of the database that it holds in."
    )
    raised_at = models.DateTimeField(db_default=models.functions.Now())

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="grantepoch_is_one_row")
        ]

    def __str__(self) -> str:
        return f"epoch {self.epoch}"
