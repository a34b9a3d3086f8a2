"""Provider accounts: made, opened, found for an operation, and shown without their secrets."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from reconcilers import keyring, registry
from reconcilers.models import DueLook, ProviderAccount
from reconcilers.providers.base import AccountAccess, parse_config

#: Members of a configuration that the engine reads, whatever the provider.
ENGINE_FIELDS = ("deadline_hours", "signed_release_above", "limits")


class AccountTaken(Exception):
    """The name or the provider's account is in use; the message says where."""


def create_account(
    kind: str,
    *,
    environment: str,
    namespace: str,
    name: str,
    document: Mapping[str, Any],
) -> ProviderAccount:
    """Check a configuration file against the provider's schema and keep it, secrets encrypted.

    Raises UnknownProvider, BadConfig or AccountTaken.
    """
    plain, secrets = parse_config(registry.provider_of(kind), environment, document)
    external_id = str(plain.pop("account", "") or "")
    try:
        with transaction.atomic():
            account = ProviderAccount.objects.create(
                kind=kind,
                environment=environment,
                namespace=namespace,
                name=name,
                external_id=external_id,
                config=plain,
                secrets=keyring.seal(secrets),
            )
            _wake_those_without_account(environment, namespace)
            return account
    except IntegrityError as error:
        raise taken(error, kind, name, external_id) from error


def _wake_those_without_account(environment: str, namespace: str) -> None:
    """Operations that nobody could be asked about find out at once that there is somebody now."""
    waiting = DueLook.objects.filter(
        lane="none", operation__environment=environment, operation__namespace=namespace
    )
    waiting.exclude(due_at=None).update(due_at=Now())


def taken(error: IntegrityError, kind: str, name: str, external_id: str) -> AccountTaken:
    """Which of the rules about accounts this was."""
    diagnosis = getattr(error.__cause__, "diag", None)
    if getattr(diagnosis, "constraint_name", "") == "provideraccount_belongs_to_one_namespace":
        return AccountTaken(
            f"{external_id} at {kind} already belongs to a namespace of this environment: two"
            " namespaces with equal keys must never meet at one provider"
        )
    return AccountTaken(f"an account called {name!r} exists in this namespace")


def learn_external_id(account_id: UUID, external_id: str) -> None:
    """Note whose credentials these turned out to be; raises AccountTaken where they are another's.

    Only where the account names none: a name that was given is checked, never overwritten.
    """
    account = ProviderAccount.objects.get(pk=account_id)
    if account.external_id:
        return
    try:
        with transaction.atomic():
            ProviderAccount.objects.filter(pk=account_id, external_id="").update(
                external_id=external_id
            )
    except IntegrityError as error:
        raise taken(error, account.kind, account.name, external_id) from error


def access_to(account: ProviderAccount) -> AccountAccess:
    """The account with its secrets, for a session; raises keyring.Unreadable."""
    return AccountAccess(
        id=account.id,
        kind=account.kind,
        name=account.name,
        environment=account.environment,
        external_id=account.external_id,
        config=account.config,
        secrets=keyring.open_sealed(bytes(account.secrets)),
    )


def resolve(
    accounts: list[ProviderAccount], *, reconciler: str, provider: str
) -> tuple[ProviderAccount | None, str]:
    """Which of a scope's accounts answers for a tool, or the sentence that says why none does.

    The account whose name is the tool's reconciler; else the only account of that kind.
    """
    for account in accounts:
        if reconciler and account.name == reconciler:
            return account, ""
    if not reconciler and not provider:
        return None, "The catalogue names no reconciler for this tool."
    kinds = [kind for kind in (reconciler, provider) if kind]
    for kind in kinds:
        of_kind = [account for account in accounts if account.kind == kind]
        if len(of_kind) == 1:
            return of_kind[0], ""
        if of_kind:
            names = ", ".join(sorted(account.name for account in of_kind))
            return None, (
                f"There are {len(of_kind)} {kind} accounts here ({names}) and the tool's"
                " reconciler names none of them."
            )
    return None, f"There is no provider account called {kinds[0]} here."


def described(account: ProviderAccount) -> dict[str, Any]:
    """What a page may show: secrets masked, never whole."""
    try:
        secrets = {
            name: keyring.masked(value)
            for name, value in keyring.open_sealed(bytes(account.secrets)).items()
        }
    except keyring.Unreadable as error:
        secrets = {"error": str(error)}
    return {
        "id": str(account.id),
        "kind": account.kind,
        "name": account.name,
        "environment": account.environment,
        "namespace": account.namespace,
        "external_id": account.external_id,
        "config": account.config,
        "secrets": secrets,
        "paused_at": account.paused_at,
    }


def rotate_secrets() -> int:
    """Seal every account's secrets under the newest key; the number of accounts."""
    rotated = 0
    for account_id in ProviderAccount.objects.values_list("pk", flat=True):
        with transaction.atomic():
            account = ProviderAccount.objects.select_for_update().get(pk=account_id)
            account.secrets = keyring.reseal(bytes(account.secrets))
            account.save(update_fields=["secrets"])
        rotated += 1
    return rotated
