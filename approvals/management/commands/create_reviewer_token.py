"""`manage.py create_reviewer_token alice@example.com`: prints the token, once, alone."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from approvals import reviewer_tokens
from approvals.errors import Refused
from approvals.models import User


class Command(BaseCommand):
    help = (
        "Make a token with which a reviewer's command line reads requests and hands in signatures."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--days", type=int, help="how long it is good; for ever if not given")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email=options["email"].strip().lower()).first()
        if user is None:
            raise CommandError(f"Nobody here is {options['email']}.")
        days = options["days"]
        expires_at = timezone.now() + timedelta(days=days) if days else None
        try:
            token = reviewer_tokens.create(user, actor="system:shell", expires_at=expires_at)
        except Refused as refused:
            raise CommandError(refused.detail) from None
        self.stdout.write(token)
