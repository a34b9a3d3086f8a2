from django.db import models


class Policy(models.Model):
    """One rule, as of one catalogue version. The first matching rule wins, by `rank`."""

    policy_id = models.TextField()
    version = models.PositiveIntegerField(help_text="Catalogue version that brought this row.")
    superseded_in = models.PositiveIntegerField(null=True)
    rank = models.PositiveIntegerField()
    match = models.JSONField(
        default=dict, help_text="environment, namespace, tool, class, agent, when (CEL)."
    )
    tier = models.TextField(default="T2")
    quorum = models.PositiveIntegerField(default=1)
    groups = models.JSONField(default=list)
    min_custody = models.TextField(default="A2")
    expires_minutes = models.PositiveIntegerField(default=60)
    document = models.JSONField(default=dict, help_text="The rule as published, every field.")
    sha256 = models.TextField(help_text="Hex SHA-256 of the JCS form of `document`.")
    published_by = models.TextField(
        blank=True, default="", help_text="Actor who published it; may not approve under it."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["policy_id", "version"], name="policy_is_unique_per_version"
            ),
            models.UniqueConstraint(
                fields=["policy_id"],
                condition=models.Q(superseded_in=None),
                name="policy_has_one_current_row",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.policy_id} v{self.version}"
