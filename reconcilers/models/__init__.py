"""Provider accounts, what each look showed, and when to look next."""

from reconcilers.models.accounts import ProviderAccount
from reconcilers.models.findings import Finding
from reconcilers.models.hooks import HookRefusal, ProviderEvent
from reconcilers.models.looks import DueLook, EngineSeat, SweepLog

__all__ = [
    "DueLook",
    "EngineSeat",
    "Finding",
    "HookRefusal",
    "ProviderAccount",
    "ProviderEvent",
    "SweepLog",
]
