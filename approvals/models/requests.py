from django.db import models

from operations.ids import handle, uuid7
from operations.models import Operation
from operations.models.scoped import Scoped

STATUSES = ("pending", "approved", "denied", "expired", "withdrawn", "superseded")


class ApprovalRequest(Scoped):
    """What people are asked. The document and its digest never change once it is opened."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    operation = models.ForeignKey(Operation, models.PROTECT, related_name="approvals")
    status = models.TextField(default="pending")
    version = models.IntegerField(default=1)
    args_fingerprint = models.TextField()
    nonce = models.BinaryField(max_length=32)
    document = models.BinaryField(help_text="JCS bytes of the immutable request document.")
    sha256 = models.TextField()
    policy_id = models.TextField()
    policy_version = models.PositiveIntegerField()
    policy_sha256 = models.TextField()
    rule = models.TextField()
    tier = models.TextField()
    quorum = models.PositiveIntegerField()
    groups = models.JSONField(default=list)
    min_custody = models.TextField()
    requester = models.TextField()
    launched_by = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(db_default=models.functions.Now())
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)
    claim_id = models.TextField(null=True)
    attempt_number = models.IntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=STATUSES), name="approvalrequest_status_is_known"
            ),
            models.UniqueConstraint(
                fields=["operation"],
                condition=models.Q(status="pending"),
                name="approvalrequest_is_pending_once_per_operation",
            ),
        ]
        indexes = [
            models.Index(
                fields=["expires_at"],
                condition=models.Q(status="pending"),
                name="approvalrequest_by_expiry",
            ),
            models.Index(
                fields=["environment", "namespace", "status", "id"],
                name="approvalrequest_by_status",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.handle} ({self.status})"

    @property
    def handle(self) -> str:
        return handle("apr", self.id)
