from django.apps import AppConfig


class ReconcilersConfig(AppConfig):
    name = "reconcilers"
    default_auto_field = "django.db.models.BigAutoField"
