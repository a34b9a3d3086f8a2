"""Provider accounts, what each look showed, and when to look next."""

from reconcilers.models.accounts import ProviderAccount
from reconcilers.models.findings import Finding
from reconcilers.models.looks import DueLook, SweepLog

__all__ = ["DueLook", "Finding", "ProviderAccount", "SweepLog"]
