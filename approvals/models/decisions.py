from django.db import models

from approvals.models.people import ReviewerKey, User
from approvals.models.requests import ApprovalRequest
from operations.ids import uuid7
from operations.models import Operation

PENDING_KINDS = ("approval", "resolution", "enrolment")
CHOICES = ("settle-committed", "settle-absent", "release", "compensate")


class PendingStatement(models.Model):
    """Bytes that the server built and one person may sign: five minutes, one try, one session."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.PROTECT)
    session = models.TextField(help_text="Digest of the session or reviewer token it is bound to.")
    kind = models.TextField(help_text="approval, resolution or enrolment.")
    request = models.ForeignKey(ApprovalRequest, models.PROTECT, null=True)
    operation = models.ForeignKey(Operation, models.PROTECT, null=True)
    operation_version = models.IntegerField(null=True)
    key = models.ForeignKey(ReviewerKey, models.PROTECT, null=True)
    statement = models.BinaryField(help_text="JCS bytes of the in-toto statement.")
    message = models.BinaryField(help_text="DSSE PAE of the statement: the bytes M.")
    display = models.TextField(blank=True, default="")
    attachment = models.BinaryField(
        null=True,
        help_text="What a resolution names by digest: the fetched object, a compensation's args.",
    )
    created_at = models.DateTimeField(db_default=models.functions.Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    outcome = models.TextField(
        null=True, help_text="What its one try became: a decision id, or `refused:<code>`."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind__in=PENDING_KINDS), name="pendingstatement_kind_is_known"
            )
        ]
        indexes = [models.Index(fields=["expires_at"], name="pendingstatement_by_expiry")]

    def __str__(self) -> str:
        return f"{self.kind} by {self.user}"


class SignedByAPerson(models.Model):
    decision_id = models.TextField(primary_key=True, help_text="sha256:<hex of SHA-256(M)>.")
    user = models.ForeignKey(User, models.PROTECT, related_name="+")
    key = models.ForeignKey(ReviewerKey, models.PROTECT, related_name="+")
    method = models.TextField()
    custody = models.TextField()
    statement = models.BinaryField()
    message = models.BinaryField()
    envelope = models.JSONField(help_text="DSSE JSON envelope.")
    sshsig = models.TextField(help_text="Armored SSHSIG over M; empty for WebCrypto.")
    evidence = models.JSONField(default=dict, help_text="The assertion as received, base64url.")
    display = models.TextField(blank=True, default="")
    reason = models.TextField(blank=True, default="")
    decided_at = models.DateTimeField(db_default=models.functions.Now())

    class Meta:
        abstract = True


class Decision(SignedByAPerson):
    """One person's signed yes or no to one request."""

    request = models.ForeignKey(ApprovalRequest, models.PROTECT, related_name="decisions")
    verdict = models.TextField(help_text="approve or deny.")
    counts = models.BooleanField(default=True, help_text="False: void, as policy changed.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["request", "user"], name="decision_is_one_per_person_and_request"
            ),
            models.CheckConstraint(
                condition=models.Q(verdict__in=["approve", "deny"]),
                name="decision_verdict_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.user}"


class Resolution(SignedByAPerson):
    """One person's signed settlement of an UNKNOWN operation."""

    operation = models.ForeignKey(
        Operation, models.PROTECT, related_name="resolutions", db_index=False
    )
    choice = models.TextField(help_text="settle-committed, settle-absent, release or compensate.")
    provider_ref = models.TextField(null=True)
    evidence_sha256 = models.TextField()
    fetched = models.BinaryField(
        null=True, help_text="JCS bytes of the object as the provider showed it before signing."
    )
    applied = models.BooleanField(default=True, help_text="False: waits for a second person.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(choice__in=CHOICES), name="resolution_choice_is_known"
            )
        ]
        indexes = [models.Index(fields=["operation"], name="resolution_by_operation")]

    def __str__(self) -> str:
        return f"{self.choice} by {self.user}"
