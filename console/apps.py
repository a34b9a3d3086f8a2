"""The console's Django app."""

from django.apps import AppConfig

# Importing the Celery app makes it the one that `shared_task` binds to, in every process.
from console import celery, pools  # noqa: F401


class ConsoleConfig(AppConfig):
    """Pages, API and alerts."""

    name = "console"
    verbose_name = "Console"

    def ready(self) -> None:
        """See that the process can end."""
        pools.close_at_exit()
