from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0003_merkle_log")]

    operations = [
        migrations.RemoveConstraint("incident", "incident_kind_is_known"),
        migrations.AddConstraint(
            "incident",
            models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        (
                            "args_conflict",
                            "duplicate_effect",
                            "late_effect",
                            "effect_mismatch",
                            "executed_without_approval",
                            "executed_after_denial",
                            "permanent_failure",
                            "attempts_exhausted",
                            "goal_exhausted",
                            "budget_exceeded",
                            "version_changed",
                            "possible_duplicate",
                            "record_id_reused",
                            "replayed_too_often",
                        ),
                    )
                ),
                name="incident_kind_is_known",
            ),
        ),
    ]
