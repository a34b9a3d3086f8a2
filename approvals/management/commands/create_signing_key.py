"""`manage.py create_signing_key`: a new key for grants; it signs from now on."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from approvals import signing_keys


class Command(BaseCommand):
    help = "Make a key that signs grants. Older keys still verify until their file is removed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dev", action="store_true", help="mark it for development; production refuses it"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        signer = signing_keys.create(dev=options["dev"])
        self.stdout.write(f"{signer.key_id} in {settings.SIGNING_KEY_DIR}")
