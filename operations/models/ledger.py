"""The Merkle log over sealed events. Written by the sequencer; proofs and checkpoints are read."""

from typing import Any

from django.db import models
from django.db.models.functions import Now


class Log(models.Model):
    """One log under one origin; the newest row is the current one.

    Entry `index` is sealed event `index + 1`. `peaks` are the compact range at `size`, `last_leaf`
    what the next entry names as `prev`. `urgent_size` is the size that must be published at once.
    """

    id = models.SmallAutoField(primary_key=True)
    origin = models.TextField(unique=True, db_collation="C")
    size = models.BigIntegerField(default=0)
    peaks = models.BinaryField(default=b"")
    last_leaf = models.BinaryField(default=b"")
    urgent_size = models.BigIntegerField(default=0)
    began_at = models.DateTimeField(db_default=Now())
    checked_to = models.BigIntegerField(default=0, help_text="Where the running check stands.")
    checked_at = models.DateTimeField(null=True, help_text="When it last came to the end.")
    forgiven: Any = models.JSONField(
        default=list, help_text="Differences that an admin signed for when this log began."
    )
    broken: Any = models.JSONField(null=True, help_text="What the check found; an admin ends it.")

    class Meta:
        db_table = "operations_ledgerlog"

    def __str__(self) -> str:
        return f"{self.origin} at {self.size}"


class LedgerNode(models.Model):
    """The root over `256 ** (level / 8)` leaves; levels 0, 8, 16 … are kept, others follow."""

    pk = models.CompositePrimaryKey("log_id", "level", "index")
    log_id = models.SmallIntegerField(help_text="Whose; the log's row is never deleted.")
    level = models.SmallIntegerField()
    index = models.BigIntegerField()
    hash = models.BinaryField()

    class Meta:
        db_table = "operations_ledgernode"

    def __str__(self) -> str:
        return f"node {self.level}/{self.index}"


class Checkpoint(models.Model):
    """A published checkpoint: a signed note, for ever."""

    log = models.ForeignKey(Log, models.PROTECT, related_name="checkpoints", db_index=False)
    size = models.BigIntegerField()
    root = models.BinaryField()
    note = models.TextField()
    vkey = models.TextField(db_collation="C")
    published_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "operations_checkpoint"
        constraints = [
            models.UniqueConstraint(fields=["log", "size"], name="checkpoint_is_one_per_size")
        ]

    def __str__(self) -> str:
        return f"checkpoint of {self.size}"
