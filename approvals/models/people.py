from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models

from operations.ids import uuid7

ROLES = ("viewer", "operator", "reviewer", "admin", "auditor")
METHODS = ("webauthn", "webcrypto", "ssh", "ssh-sk")
CUSTODY = {"webauthn": "A2", "ssh-sk": "A2", "webcrypto": "A1", "ssh": "A1"}


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None, *, role: str, **extra: Any) -> "User":
        user = self.model(email=self.normalize_email(email).lower(), role=role, **extra)
        user.set_password(password)
        user.save()
        return user


class User(AbstractBaseUser):
    """A person. One role each; admin cannot approve by being admin."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    email = models.EmailField(unique=True)
    name = models.TextField(blank=True, default="")
    role = models.TextField(default="viewer")
    is_active = models.BooleanField(default=True)
    time_zone = models.TextField(default="UTC")
    theme = models.TextField(default="auto")
    shortcuts = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    USERNAME_FIELD = "email"
    objects: ClassVar[UserManager] = UserManager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=ROLES), name="user_role_is_known")
        ]

    def __str__(self) -> str:
        return self.name or self.email


class ReviewerKey(models.Model):
    """A public key that signs decisions. Approval keys are never login keys."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="keys")
    method = models.TextField()
    name = models.TextField()
    key_id = models.TextField(unique=True, help_text="sha256:<hex of the SPKI digest>.")
    spki = models.BinaryField(help_text="SubjectPublicKeyInfo, DER.")
    ssh_public_key = models.TextField(
        help_text="The allowed_signers form of the same key; passkeys are webauthn-sk keys."
    )
    credential_id = models.BinaryField(null=True, unique=True)
    rp_id = models.TextField(blank=True, default="")
    sign_count = models.BigIntegerField(default=0)
    backup_eligible = models.BooleanField(null=True)
    backed_up = models.BooleanField(null=True)
    purpose = models.TextField(default="approve")
    bootstrap = models.BooleanField(default=False)
    countersigned_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(
        null=True, help_text="When its owner said that it is theirs; till then pages announce it."
    )
    revoked_at = models.DateTimeField(null=True)
    revoked_reason = models.TextField(null=True)
    bad_from = models.BigIntegerField(
        null=True, help_text="Of a compromised key: the log's first index that it is not believed."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(method__in=METHODS), name="reviewerkey_method_is_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"

    @property
    def custody(self) -> str:
        """A2 for hardware with user verification, A1 for software keys."""
        return CUSTODY[self.method]


class ReviewerToken(models.Model):
    """Lets a reviewer's command line read requests and hand in signatures; stored as a digest."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="tokens")
    digest = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"token of {self.user}"
