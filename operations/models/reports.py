from django.db import models
from django.db.models.functions import Now

from operations.models.intents import Operation
from operations.models.scoped import Scoped

RECORD_TYPES = (
    "RUN_STARTED",
    "LLM_RESPONDED",
    "TOOL_INVOKED",
    "TOOL_SENDING",
    "TOOL_COMMITTED",
    "TOOL_FAILED",
    "TOOL_UNKNOWN",
    "RESULT_DELIVERED",
    "STEP_COMPLETED",
    "RUN_FINISHED",
)


class Record(Scoped):
    """Report mode: one fact as a runtime told it, kept whatever it says.

    The state and the incidents of an operation are a fold over the *set* of its records.
    """

    id = models.BigAutoField(primary_key=True)
    record_id = models.TextField(db_collation="C")
    status = models.TextField(help_text="accepted, malformed or incident.")
    code = models.TextField(null=True)
    pointer = models.TextField(null=True)
    type = models.TextField(null=True)
    operation = models.ForeignKey(
        Operation, models.PROTECT, null=True, related_name="records", db_index=False
    )
    idem_key = models.TextField(null=True)
    attempt_id = models.TextField(null=True)
    effect = models.TextField(null=True)
    permanent = models.BooleanField(null=True)
    replayed = models.BooleanField(default=False)
    provider_ref = models.TextField(null=True)
    result_sha256 = models.BinaryField(max_length=32, null=True)
    args_fingerprint = models.TextField(null=True)
    tool = models.TextField(null=True)
    occurred_at = models.DateTimeField(null=True)
    received_at = models.DateTimeField(db_default=Now())
    runtime = models.UUIDField(null=True)
    body = models.BinaryField(null=True, help_text="The record as received, byte for byte.")
    sha256 = models.BinaryField(max_length=32)
    erased_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "namespace", "record_id"],
                name="record_id_is_unique_in_namespace",
            )
        ]
        indexes = [
            models.Index(
                fields=["operation"],
                condition=models.Q(operation__isnull=False),
                name="record_by_operation",
            )
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.record_id}"


class InboxItem(Scoped):
    """Evidence for a key that nobody has claimed yet: an outcome, a webhook, a late report.

    The transaction that creates or claims an operation reads it first.
    """

    id = models.BigAutoField(primary_key=True)
    idem_key = models.TextField(db_collation="C")
    source = models.TextField(help_text="outcome, record, webhook:<account>.")
    body = models.BinaryField()
    sha256 = models.BinaryField(max_length=32)
    runtime = models.UUIDField(null=True)
    received_at = models.DateTimeField(db_default=Now())
    matched_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["idem_key", "environment", "namespace", "sha256"],
                name="inboxitem_is_kept_once",
            )
        ]
        indexes = [
            models.Index(
                fields=["id"], condition=models.Q(matched_at=None), name="inboxitem_not_matched"
            )
        ]

    def __str__(self) -> str:
        return f"{self.source} for {self.idem_key[:12]}"
