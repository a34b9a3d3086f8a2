"""`manage.py create_api_key`: a credential for one agent runtime, printed once and alone."""

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from operations import api_keys
from operations.models.access import SCOPES
from operations.models.scoped import ENVIRONMENTS


class Command(BaseCommand):
    """Prints the key on stdout; whatever else there is to say goes to stderr."""

    help = "Create an API key for one agent runtime and print it once."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--name", required=True, help="what people call this runtime")
        parser.add_argument("--environment", required=True, choices=ENVIRONMENTS)
        parser.add_argument("--namespace", default="default")
        parser.add_argument(
            "--scopes",
            default="operations:write,operations:read",
            help=f"comma-separated, of {', '.join(SCOPES)}",
        )
        parser.add_argument("--expires-in-days", type=int, help="default: no end")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create the key."""
        days = options["expires_in_days"]
        if days is not None and days < 1:
            raise CommandError("--expires-in-days is at least 1")
        try:
            _, token = api_keys.create(
                options["name"],
                environment=options["environment"],
                namespace=options["namespace"],
                scopes=[scope.strip() for scope in options["scopes"].split(",") if scope.strip()],
                expires_at=timezone.now() + timedelta(days=days) if days else None,
            )
        except ValueError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(token)
