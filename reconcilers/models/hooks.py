from django.db import models
from django.db.models.functions import Now

from operations.models import Operation
from reconcilers.models.accounts import ProviderAccount

#: received: not worked on yet. asked: the operation is known and a look was asked for. done: it
#: was looked at since. waiting: no operation has this key yet. The others are kept and left alone.
STANDINGS = (
    "received",
    "asked",
    "done",
    "waiting",
    "repeated",
    "not_ours",
    "wrong_mode",
    "wrong_account",
    "unreadable",
)
OPEN = ("received", "asked", "waiting")


class ProviderEvent(models.Model):
    """A provider's message, verified and stored before anybody acts on it. A hint, never a fact."""

    id = models.BigAutoField(primary_key=True)
    account = models.ForeignKey(ProviderAccount, models.PROTECT, db_index=False)
    event_id = models.TextField(help_text="The provider's; else a digest of the body.")
    type = models.TextField(blank=True)
    object_kind = models.TextField(blank=True, default="")
    object_id = models.TextField(blank=True, default="")
    change_sha256 = models.BinaryField(max_length=32, null=True, help_text="The object as shown.")
    idem_key = models.TextField(null=True, help_text="Our key, as the object or request names it.")
    mode = models.TextField(blank=True, default="")
    account_named = models.TextField(blank=True, default="")
    api_version = models.TextField(blank=True, default="")
    happened_at = models.DateTimeField(null=True, help_text="The provider's clock.")
    received_at = models.DateTimeField(db_default=Now())
    times = models.IntegerField(default=1, help_text="Deliveries of this event.")
    last_received_at = models.DateTimeField(db_default=Now())
    sighting = models.JSONField(null=True, help_text="The object as the event shows it.")
    body = models.BinaryField(null=True, help_text="As it came, erasable.")
    standing = models.TextField(default="received")
    reason = models.TextField(blank=True, default="")
    operation = models.ForeignKey(
        Operation, models.PROTECT, null=True, related_name="provider_events"
    )
    asked_at = models.DateTimeField(null=True)
    asks = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account", "event_id"], name="providerevent_is_kept_once"
            ),
            models.CheckConstraint(
                condition=models.Q(standing__in=STANDINGS), name="providerevent_standing_is_known"
            ),
        ]
        indexes = [
            models.Index(
                fields=["standing", "id"],
                condition=models.Q(standing__in=OPEN),
                name="providerevent_open",
            ),
            models.Index(fields=["account", "object_id", "type"], name="providerevent_by_object"),
            models.Index(fields=["account", "received_at"], name="providerevent_by_account"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"


class HookRefusal(models.Model):
    """Deliveries that were refused, counted by cause. Of the body only the last digest is kept."""

    account = models.ForeignKey(ProviderAccount, models.PROTECT, related_name="hook_refusals")
    cause = models.TextField()
    detail = models.TextField(blank=True, default="")
    count = models.BigIntegerField(default=1)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())
    last_sha256 = models.BinaryField(max_length=32)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account", "cause"], name="hookrefusal_is_one_per_cause"
            )
        ]

    def __str__(self) -> str:
        return f"{self.cause}: {self.count}"
