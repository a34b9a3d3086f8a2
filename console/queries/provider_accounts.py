"""Provider accounts as their pages show them."""

from dataclasses import dataclass
from typing import Any

from operations import ids
from reconcilers import accounts, registry, trying
from reconcilers.evidence import Way
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import Provider
from reconcilers.reading import PROVES


@dataclass(frozen=True)
class AccountPage:
    """One account: its row, its provider (None where the folder is gone), secrets masked."""

    row: ProviderAccount
    provider: Provider | None
    masked: dict[str, str]

    @property
    def handle(self) -> str:
        """As addresses and the audit write it."""
        return ids.handle("acc", self.row.pk)

    @property
    def title(self) -> str:
        """What people call the kind."""
        return self.provider.title if self.provider else self.row.kind

    @property
    def ways(self) -> list[tuple[Way, str]]:
        """Its look-ups, and what each can prove."""
        if self.provider is None:
            return []
        return [(way, PROVES[way.lookup_class]) for way in trying.ways_to_try(self.row)]

    @property
    def configured(self) -> list[tuple[str, str]]:
        """What is no secret, in the schema's order, as text."""
        known = {"account": self.row.external_id, **self.row.config}
        order = [field.name for field in self.provider.fields] if self.provider else list(known)
        given = [name for name in order if known.get(name) not in (None, "")]
        return [(name, _text(known[name])) for name in given]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_text(member)}" for name, member in value.items())
    return str(value)


def find(handle: str) -> AccountPage | None:
    """The account, or None."""
    key = ids.parse_handle("acc", handle)
    row = ProviderAccount.objects.filter(pk=key).first() if key else None
    if row is None:
        return None
    provider = registry.providers().get(row.kind)
    return AccountPage(row, provider, accounts.described(row)["secrets"])


def every() -> list[tuple[str, ProviderAccount]]:
    """All accounts with their handles, by environment, namespace and name."""
    listed = ProviderAccount.objects.order_by("environment", "namespace", "name").defer("secrets")
    return [(ids.handle("acc", row.pk), row) for row in listed]
