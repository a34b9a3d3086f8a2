"""`manage.py rotate_provider_secrets`: seal every account under the newest key of the ring."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reconcilers import accounts, keyring


class Command(BaseCommand):
    """Put the new key in front of COUNTERSIGN_KEYRING, run this, then drop the old key."""

    help = "Seal the secrets of all provider accounts under the newest key."

    def handle(self, *args: Any, **options: Any) -> None:
        """Say how many accounts were sealed anew."""
        try:
            count = accounts.rotate_secrets()
        except keyring.Unreadable as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{count} accounts sealed under the newest key")
