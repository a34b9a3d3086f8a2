"""An account's configuration, changed member by member: a rolled secret, another limit."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from reconcilers import keyring, registry
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import BadConfig, parse_config


def change_account(
    *, environment: str, namespace: str, name: str, changes: Mapping[str, Any]
) -> ProviderAccount:
    """Put `changes` over what there is and check the whole again; None takes a member away.

    Raises ProviderAccount.DoesNotExist, BadConfig (nothing was changed) or keyring.Unreadable.
    Whose account it is does not change: another one at the provider is another account here.
    """
    with transaction.atomic():
        account = ProviderAccount.objects.select_for_update().get(
            environment=environment, namespace=namespace, name=name
        )
        known: dict[str, Any] = {
            **account.config,
            **keyring.open_sealed(bytes(account.secrets)),
        }
        if account.external_id:
            known["account"] = account.external_id
        merged = {
            member: value for member, value in (known | dict(changes)).items() if value is not None
        }
        plain, secrets = parse_config(registry.provider_of(account.kind), environment, merged)
        external_id = str(plain.pop("account", "") or "")
        if account.external_id and external_id != account.external_id:
            raise BadConfig(
                f"account: this one is {account.external_id}; make another for {external_id or '?'}"
            )
        account.config, account.external_id = plain, external_id
        account.secrets = keyring.seal(secrets)
        account.save(update_fields=["config", "external_id", "secrets"])
        return account
