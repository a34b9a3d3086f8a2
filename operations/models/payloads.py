from django.db import models
from django.db.models.functions import Now

from operations.models.intents import Operation

KINDS = ("args", "result", "error", "reason", "evidence")


class Payload(models.Model):
    """Exact JSON bytes that may have to be erased; events hold only their SHA-256.

    bytea, because jsonb reorders members, respells numbers and refuses NUL.
    """

    operation = models.ForeignKey(
        Operation,
        models.PROTECT,
        related_name="payloads",
        db_index=False,
        db_constraint=False,  # written with the operation's row; a trigger keeps that from going
    )
    kind = models.TextField()
    attempt_number = models.IntegerField(default=0)
    body = models.BinaryField(null=True)
    sha256 = models.BinaryField(max_length=32)
    erased_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind__in=KINDS), name="payload_kind_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(body__isnull=False) ^ models.Q(erased_at__isnull=False),
                name="payload_is_present_or_erased",
            ),
        ]
        indexes = [models.Index(fields=["operation", "kind"], name="payload_by_operation")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.operation_id}"
