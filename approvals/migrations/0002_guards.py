from pathlib import Path

from django.db import migrations

GUARDS = Path(__file__).resolve().parent.parent / "sql" / "guards.sql"


class Migration(migrations.Migration):
    dependencies = [("approvals", "0001_initial")]

    operations = [migrations.RunSQL(GUARDS.read_text(), migrations.RunSQL.noop)]
