from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0002_guards"),
    ]

    operations = [
        migrations.AddField(
            model_name="grantepoch",
            name="cluster",
            field=models.TextField(
                db_default="", help_text="Identity and timeline of the database that it holds in."
            ),
        ),
    ]
