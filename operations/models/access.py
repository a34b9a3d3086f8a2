from django.contrib.postgres.fields import ArrayField
from django.db import models

from operations.ids import uuid7
from operations.models.scoped import Scoped, environment_is_known

SCOPES = ("operations:write", "operations:read", "ledger:read", "drills:write")


class ApiKey(Scoped):
    """One agent runtime's credential. The token itself is never stored, only its SHA-256."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.TextField()
    scopes = ArrayField(models.TextField())
    digest = models.BinaryField(max_length=32, unique=True)
    token_prefix = models.TextField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [environment_is_known("apikey")]

    def __str__(self) -> str:
        return f"{self.name} ({self.environment}/{self.namespace})"
