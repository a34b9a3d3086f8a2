"""`manage.py create_ledger_key`: a new key for the ledger's checkpoints; it signs from now on."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from approvals import signing_keys


class Command(BaseCommand):
    help = "Make a key that signs checkpoints. Restart the sequencer to use it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dev", action="store_true", help="mark it for development; production refuses it"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        signer = signing_keys.create(signing_keys.LEDGER, dev=options["dev"])
        self.stdout.write(f"{signer.key_id} in {signing_keys.folder_of(signing_keys.LEDGER)}")
