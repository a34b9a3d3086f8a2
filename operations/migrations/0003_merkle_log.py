from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

GUARDS = Path(__file__).resolve().parent.parent / "sql" / "ledger_guards.sql"


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0002_guards"),
    ]

    operations = [
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("size", models.BigIntegerField()),
                ("root", models.BinaryField()),
                ("note", models.TextField()),
                ("vkey", models.TextField(db_collation="C")),
                (
                    "published_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "db_table": "operations_checkpoint",
            },
        ),
        migrations.CreateModel(
            name="LedgerNode",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "log_id",
                        "level",
                        "index",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "log_id",
                    models.SmallIntegerField(help_text="Whose; the log's row is never deleted."),
                ),
                ("level", models.SmallIntegerField()),
                ("index", models.BigIntegerField()),
                ("hash", models.BinaryField()),
            ],
            options={
                "db_table": "operations_ledgernode",
            },
        ),
        migrations.CreateModel(
            name="Log",
            fields=[
                ("id", models.SmallAutoField(primary_key=True, serialize=False)),
                ("origin", models.TextField(db_collation="C", unique=True)),
                ("size", models.BigIntegerField(default=0)),
                ("peaks", models.BinaryField(default=b"")),
                ("last_leaf", models.BinaryField(default=b"")),
                ("urgent_size", models.BigIntegerField(default=0)),
                (
                    "began_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "checked_to",
                    models.BigIntegerField(default=0, help_text="Where the running check stands."),
                ),
                (
                    "checked_at",
                    models.DateTimeField(help_text="When it last came to the end.", null=True),
                ),
                (
                    "forgiven",
                    models.JSONField(
                        default=list,
                        help_text="Differences that an admin signed for when this log began.",
                    ),
                ),
                (
                    "broken",
                    models.JSONField(
                        help_text="What the check found; an admin ends it.", null=True
                    ),
                ),
            ],
            options={
                "db_table": "operations_ledgerlog",
            },
        ),
        migrations.AddIndex(
            model_name="standing",
            index=models.Index(
                condition=models.Q(("waiting_on", "sealing")),
                fields=["operation"],
                name="standing_waits_for_sealing",
            ),
        ),
        migrations.AddField(
            model_name="checkpoint",
            name="log",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="checkpoints",
                to="operations.log",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.UniqueConstraint(
                fields=("log", "size"), name="checkpoint_is_one_per_size"
            ),
        ),
        migrations.RunSQL(GUARDS.read_text(), migrations.RunSQL.noop),
    ]
