"""What pages read about looks: one operation's evidence, the accounts' health, what is UNKNOWN.

Every answer is made of plain values; sentences come ready to show.
"""

from reconcilers.reading.groups import UnknownGroup, unknown_groups
from reconcilers.reading.health import AccountHealth, Freshness, account_health, freshness
from reconcilers.reading.hooks import HookHealth, hook_health
from reconcilers.reading.ladders import (
    PROVES,
    EvidenceLadder,
    Rung,
    evidence_ladder,
    raw_answer,
)

__all__ = [
    "PROVES",
    "AccountHealth",
    "EvidenceLadder",
    "Freshness",
    "HookHealth",
    "Rung",
    "UnknownGroup",
    "account_health",
    "evidence_ladder",
    "freshness",
    "hook_health",
    "raw_answer",
    "unknown_groups",
]
