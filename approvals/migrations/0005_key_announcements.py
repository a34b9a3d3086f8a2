from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0004_resolution_attachments")]

    operations = [
        migrations.AddField(
            "reviewerkey",
            "acknowledged_at",
            models.DateTimeField(
                help_text="When its owner said that it is theirs; till then pages announce it.",
                null=True,
            ),
        ),
        # Keys that were there before anything was announced are no news.
        migrations.RunSQL(
            "UPDATE approvals_reviewerkey SET acknowledged_at = created_at",
            migrations.RunSQL.noop,
        ),
    ]
