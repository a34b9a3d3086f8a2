"""Changing a provider account. Secrets go in and never come out: what is not given stays."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction

from reconcilers import accounts, keyring, registry
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import parse_config


@dataclass(frozen=True)
class Changed:
    """Names of fields, never their values."""

    plain: tuple[str, ...]
    secrets: tuple[str, ...]


def change_account(
    account_id: UUID, document: Mapping[str, Any], *, forget: Collection[str] = ()
) -> Changed:
    """Replace the configuration; of the secrets only those given, and drop those in `forget`.

    Raises BadConfig, keyring.Unreadable or accounts.AccountTaken, and then nothing was changed.
    """
    with transaction.atomic(), connection.cursor() as cur:
        account = ProviderAccount.objects.select_for_update().get(pk=account_id)
        provider = registry.provider_of(account.kind)
        kept = keyring.open_sealed(bytes(account.secrets))
        for name in forget:
            kept.pop(name, None)
        plain, secrets = parse_config(provider, account.environment, {**kept, **document})
        before = {**account.config, "account": account.external_id}
        if any(field.name == "account" for field in provider.fields):
            account.external_id = str(plain.pop("account", "") or "")
        after = {**plain, "account": account.external_id}
        changed = Changed(
            tuple(sorted(name for name in before | after if before.get(name) != after.get(name))),
            tuple(sorted({*forget} | {n for n in secrets if secrets[n] != kept.get(n)})),
        )
        account.config = plain
        account.secrets = keyring.seal(secrets)
        try:
            with transaction.atomic():
                account.save(update_fields=["config", "secrets", "external_id"])
        except IntegrityError as error:
            raise accounts.taken(error, account.kind, account.name, account.external_id) from error
        # What could not be asked with the old configuration is asked again with the new one.
        cur.execute(
            "UPDATE reconcilers_duelook SET due_at = clock_timestamp()"
            " WHERE lane = %s AND due_at IS NOT NULL AND purpose = 'settle'",
            (str(account_id),),
        )
    return changed
