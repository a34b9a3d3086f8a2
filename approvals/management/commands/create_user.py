"""`manage.py create_user alice@example.com --role reviewer --password-stdin`."""

import sys
from argparse import ArgumentParser
from getpass import getpass
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_email
from django.db import connection, transaction

from approvals import audit
from approvals.models import User
from approvals.models.people import ROLES

SHORTEST_PASSWORD = 8


class Command(BaseCommand):
    help = "Make an account for a person. The role says what they may do; admin is no approver."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--role", choices=ROLES, default="viewer")
        parser.add_argument("--name", default="", help="as colleagues know them")
        parser.add_argument(
            "--password-stdin", action="store_true", help="read the password from the first line"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        email = str(options["email"]).strip().lower()
        try:
            validate_email(email)
        except ValidationError:
            raise CommandError(f"{email!r} is no e-mail address.") from None
        if User.objects.filter(email=email).exists():
            raise CommandError(f"{email} has an account already.")
        password = (
            sys.stdin.readline().rstrip("\r\n")
            if options["password_stdin"]
            else getpass(f"Password for {email}: ")
        )
        self._judge(password, User(email=email, role=options["role"], name=options["name"]))
        with transaction.atomic(), connection.cursor() as cur:
            user = User.objects.create_user(
                email, password, role=options["role"], name=options["name"]
            )
            audit.note(
                cur, "user.created", actor="system:shell",
                data={"user": str(user.id), "role": user.role},
            )  # fmt: skip
        self.stdout.write(f"{email} is {user.role} now.")

    def _judge(self, password: str, person: User) -> None:
        """Whoever holds the shell decides about the rest, and is told."""
        if len(password) < SHORTEST_PASSWORD:
            raise CommandError(f"A password has at least {SHORTEST_PASSWORD} characters.")
        try:
            validate_password(password, person)
        except ValidationError as error:
            for message in error.messages:
                self.stderr.write(f"warning: {message}")
