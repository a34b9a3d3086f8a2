from django.db import models

from operations.ids import uuid7
from operations.models.scoped import Scoped, environment_is_known


class ProviderAccount(Scoped):
    """One account at one provider, owned by exactly one (environment, namespace).

    A provider gives the live and the test side of an account one id; they are two accounts here.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.TextField(help_text="The provider's folder name, e.g. stripe.")
    name = models.TextField()
    external_id = models.TextField(blank=True, default="", help_text="The provider's account id.")
    config = models.JSONField(default=dict, help_text="What is no secret.")
    secrets = models.BinaryField(help_text="JSON, encrypted with the key ring.")
    paused_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            environment_is_known("provideraccount"),
            models.UniqueConstraint(
                fields=["environment", "namespace", "name"],
                name="provideraccount_name_is_unique_in_namespace",
            ),
            models.UniqueConstraint(
                fields=["kind", "environment", "external_id"],
                condition=~models.Q(external_id=""),
                name="provideraccount_belongs_to_one_namespace",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"
