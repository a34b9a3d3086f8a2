"""The console's Django app."""

from django.apps import AppConfig

# Importing the Celery app makes it the one that `shared_task` binds to, in every process.
from console import celery  # noqa: F401


class ConsoleConfig(AppConfig):
    """Pages, API and alerts."""

    name = "console"
    verbose_name = "Console"
