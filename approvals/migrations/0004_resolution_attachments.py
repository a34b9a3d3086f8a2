from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0003_epoch_cluster")]

    operations = [
        migrations.AddField(
            "pendingstatement",
            "attachment",
            models.BinaryField(
                help_text=(
                    "What a resolution names by digest: the fetched object, a compensation's args."
                ),
                null=True,
            ),
        ),
        migrations.AddField(
            "resolution",
            "fetched",
            models.BinaryField(
                help_text="JCS bytes of the object as the provider showed it before signing.",
                null=True,
            ),
        ),
    ]
