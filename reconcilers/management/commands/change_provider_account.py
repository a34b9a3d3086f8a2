"""`manage.py change_provider_account NAME --environment test --config FILE`."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from operations.models.scoped import ENVIRONMENTS
from reconcilers import changing, keyring
from reconcilers.management.commands.create_provider_account import read_config
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import BadConfig


class Command(BaseCommand):
    """Members that the file names are replaced, `null` takes one away, the others stay."""

    help = "Change members of a provider account's configuration; secrets are never printed."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """An account is named within its environment and namespace."""
        parser.add_argument("name")
        parser.add_argument("--environment", required=True, choices=ENVIRONMENTS)
        parser.add_argument("--namespace", default="default")
        parser.add_argument("--config", required=True, help="YAML file, or - for stdin")

    def handle(self, *args: Any, **options: Any) -> None:
        """Say which members the account has now, without their values."""
        try:
            account = changing.change_account(
                environment=options["environment"],
                namespace=options["namespace"],
                name=options["name"],
                changes=read_config(options["config"]),
            )
        except ProviderAccount.DoesNotExist:
            raise CommandError("there is no account of this name here") from None
        except (BadConfig, keyring.Unreadable) as error:
            raise CommandError(f"{error}; nothing was changed") from None
        secrets = keyring.open_sealed(bytes(account.secrets))
        self.stdout.write(", ".join(sorted({*account.config, *secrets})))
