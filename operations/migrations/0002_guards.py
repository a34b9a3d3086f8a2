"""Transition guard, append-only triggers, the open table's projection, and wake-ups.

The SQL is read from `operations/sql/guards.sql`, which may be run again: a later change to it is
a new migration that calls `install` once more.
"""

from pathlib import Path
from typing import Any

from django.db import migrations

GUARDS = Path(__file__).resolve().parent.parent / "sql" / "guards.sql"


def install(apps: Any, schema_editor: Any) -> None:
    schema_editor.execute(GUARDS.read_text(), params=None)


class Migration(migrations.Migration):
    dependencies = [("operations", "0001_initial")]

    operations = [migrations.RunPython(install, migrations.RunPython.noop)]
