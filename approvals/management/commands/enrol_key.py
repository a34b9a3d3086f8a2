"""`manage.py enrol_key alice@example.com --ssh-key key.pub`."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals import enrolment
from approvals.errors import Refused
from approvals.models import User


class Command(BaseCommand):
    help = "Enrol an SSH public key for a reviewer at a command line; it is marked bootstrap."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--ssh-key", required=True, type=Path, help="a .pub file")
        parser.add_argument("--name", default="", help="what to call the key; its comment else")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email=options["email"].strip().lower()).first()
        if user is None:
            raise CommandError(f"Nobody here is {options['email']}.")
        try:
            line = options["ssh_key"].read_text().strip()
        except OSError as error:
            raise CommandError(f"The key cannot be read: {error}") from None
        words = line.split(maxsplit=2)
        name = options["name"] or (words[2] if len(words) > 2 else options["ssh_key"].stem)
        try:
            key = enrolment.add_from_shell(user, line, name[:60], actor="system:shell")
        except Refused as refused:
            raise CommandError(refused.detail) from None
        self.stdout.write(f"{key.key_id} signs for {user.email} now ({key.method}, {key.custody}).")
