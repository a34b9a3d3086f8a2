from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from approvals import freshness

        user_logged_in.connect(freshness.on_login, dispatch_uid="approvals.freshness")
