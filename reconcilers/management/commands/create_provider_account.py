"""`manage.py create_provider_account stripe --environment test --name NAME --config FILE`."""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from operations.models.scoped import ENVIRONMENTS
from reconcilers import accounts, registry
from reconcilers.providers.base import BadConfig


class Command(BaseCommand):
    """Secrets are read from the file (or stdin), sealed, and never printed."""

    help = "Keep a provider's account, from YAML by the provider's own schema."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """One account belongs to one environment and namespace."""
        parser.add_argument("kind", help=f"one of: {', '.join(registry.providers())}")
        parser.add_argument("--environment", required=True, choices=ENVIRONMENTS)
        parser.add_argument("--namespace", default="default")
        parser.add_argument("--name", help="what tools name as their reconciler; default: the kind")
        parser.add_argument("--config", required=True, help="YAML file, or - for stdin")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the account's id, alone."""
        document = read_config(options["config"])
        try:
            account = accounts.create_account(
                options["kind"],
                environment=options["environment"],
                namespace=options["namespace"],
                name=options["name"] or options["kind"],
                document=document,
            )
        except (BadConfig, accounts.AccountTaken, registry.UnknownProvider) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(str(account.id))


def read_config(path: str) -> dict[str, Any]:
    """The mapping in a YAML file, or on stdin for `-`; CommandError where there is none."""
    text = sys.stdin.read() if path == "-" else _read(path)
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise CommandError(_where(error)) from None
    if not isinstance(document, dict):
        raise CommandError("the configuration must be a YAML mapping of fields")
    return document


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None


def _where(error: yaml.YAMLError) -> str:
    """Where it is wrong; the text itself may hold a secret and is not shown."""
    mark = getattr(error, "problem_mark", None)
    return f"no YAML at line {mark.line + 1}" if mark else "no YAML"
