"""`manage.py start_new_log`: an admin signs that the ledger is broken, and a new origin begins."""

import subprocess
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals import log_breaks
from approvals.errors import Refused
from approvals.keys import NAMESPACE
from approvals.models import User


class Command(BaseCommand):
    help = "Sign for a broken or restored ledger; a new log begins and unused grants die."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--admin", required=True, help="the admin's e-mail address")
        parser.add_argument("--reason", required=True, help="what happened, in a sentence")
        parser.add_argument(
            "--ssh-key", type=Path, help="the admin's enrolled SSH key; ssh-keygen signs with it"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        admin = User.objects.filter(email=options["admin"].strip().lower()).first()
        if admin is None:
            raise CommandError(f"Nobody here is {options['admin']}.")
        try:
            statement = log_breaks.prepare(admin, options["reason"])
            armor = _sign(options["ssh_key"], statement.message) if options["ssh_key"] else None
            origin = log_breaks.start_new_log(admin, statement, armor)
        except Refused as refused:
            raise CommandError(refused.detail) from None
        for where in statement.document["differences"]:
            self.stdout.write(f"signed for: {where}")
        self.stdout.write(f"The log {origin} begins; the sequencer publishes it in a moment.")


def _sign(key: Path, message: bytes) -> str:
    done = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", str(key)],  # noqa: S607
        input=message,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(f"ssh-keygen did not sign: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()
