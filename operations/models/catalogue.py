from django.db import models

TOOL_CLASSES = ("safe", "idempotent", "unsafe")


class CatalogueVersion(models.Model):
    """One published state of tools and policies. Operations remember the version they ran under."""

    version = models.PositiveIntegerField(primary_key=True)
    published_at = models.DateTimeField(auto_now_add=True)
    published_by = models.TextField()
    document = models.TextField(help_text="The whole catalogue as published, canonical JSON.")
    sha256 = models.TextField()

    def __str__(self) -> str:
        return f"catalogue v{self.version}"


class Tool(models.Model):
    """How one tool behaves, as of one catalogue version. A change adds a row; none is edited."""

    name = models.TextField(db_collation="C")
    version = models.PositiveIntegerField(help_text="Catalogue version that brought this row.")
    superseded_in = models.PositiveIntegerField(null=True)
    tool_class = models.TextField(default="unsafe")
    provider = models.TextField(blank=True, default="")
    reconciler = models.TextField(blank=True, default="")
    provider_object = models.TextField(blank=True, default="")
    lookups = models.JSONField(default=list)
    uniqueness_guard = models.TextField(blank=True, default="")
    accepts_key = models.BooleanField(default=False)
    key_retention_hours = models.PositiveIntegerField(null=True)
    client_timeout_seconds = models.PositiveIntegerField(default=80)
    client_tries = models.PositiveIntegerField(default=1)
    provider_max_seconds = models.PositiveIntegerField(default=900)
    marker = models.BooleanField(default=True)
    lease_seconds = models.PositiveIntegerField(default=60)
    amount_pointer = models.TextField(blank=True, default="")
    currency_pointer = models.TextField(blank=True, default="")
    currency = models.TextField(blank=True, default="")
    amount_unit = models.TextField(default="minor")
    exponents = models.JSONField(default=dict)
    redact = models.JSONField(default=list)
    retention_days = models.PositiveIntegerField(default=365)
    attempts_transient = models.PositiveIntegerField(default=5)
    attempts_permanent = models.PositiveIntegerField(default=0)
    attempts_per_goal = models.PositiveIntegerField(default=3)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="tool_is_unique_per_version"),
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(superseded_in=None),
                name="tool_has_one_current_row",
            ),
            models.CheckConstraint(
                condition=models.Q(tool_class__in=TOOL_CLASSES), name="tool_class_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(amount_unit__in=("minor", "major")),
                name="tool_amount_unit_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version} ({self.tool_class})"
