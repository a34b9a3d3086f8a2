"""The ledger's source: immutable facts, sealed into a gap-free order after they commit."""

from typing import Any

from django.db import models
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now

from operations.models.intents import Operation
from operations.models.runs import Run
from operations.models.scoped import Scoped


class Xid8Field(models.TextField):  # type: ignore[type-arg]  # Django's fields are not generic
    """Postgres xid8: which transaction wrote the row, for reading by snapshot."""

    def db_type(self, connection: Any) -> str:
        return "xid8"


class Event(Scoped):
    """One fact. Append-only by trigger; `data` holds ids, words and digests, never args."""

    id = models.BigAutoField(primary_key=True)
    operation = models.ForeignKey(
        Operation,
        models.PROTECT,
        null=True,
        related_name="events",
        db_index=False,
        db_constraint=False,  # written with the operation's row; a trigger keeps that from going
    )
    run = models.ForeignKey(Run, models.PROTECT, null=True, db_index=False, db_constraint=False)
    version = models.IntegerField(null=True, help_text="The operation's version that it made.")
    type = models.TextField()
    from_state = models.TextField(null=True)
    to_state = models.TextField(null=True)
    actor = models.TextField(help_text="runtime:<key id>, user:<id>, system:<part>.")
    at = models.DateTimeField(db_default=RawSQL("clock_timestamp()", ()))
    data = models.JSONField(default=dict)
    xid = Xid8Field(db_default=RawSQL("pg_current_xact_id()", ()), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "version"], name="event_version_is_unique_per_operation"
            )
        ]
        indexes = [models.Index(fields=["xid"], name="event_by_transaction")]

    def __str__(self) -> str:
        return f"{self.type} #{self.id}"


class SealedEvent(models.Model):
    """The gap-free order that readers keep cursors over. Written by the sequencer alone."""

    seq = models.BigIntegerField(primary_key=True)
    event = models.OneToOneField(Event, models.PROTECT, related_name="sealed")
    sealed_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"#{self.seq}"


class SequencerState(models.Model):
    """One row: where sealing stands. `snapshot` is the pg_snapshot up to which all is sealed."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    snapshot = models.TextField(default="")
    last_seq = models.BigIntegerField(default=0)
    ran_at = models.DateTimeField(null=True)
    swept_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="sequencerstate_is_one_row")
        ]

    def __str__(self) -> str:
        return f"sealed to #{self.last_seq}"
