from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0005_key_announcements"),
    ]

    operations = [
        migrations.AddField(
            model_name="reviewerkey",
            name="bad_from",
            field=models.BigIntegerField(
                help_text="Of a compromised key: the log's first index that it is not believed.",
                null=True,
            ),
        ),
    ]
