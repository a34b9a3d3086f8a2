"""The states of an operation and the one table of transitions (design: the domain, "States").

`operations/sql/guards.sql` holds the same pairs for the database trigger; a test compares
the two. `docs/states.md` is generated from this module.
"""

from typing import Final

PENDING: Final = "PENDING"
INVOKED: Final = "INVOKED"
COMMITTED: Final = "COMMITTED"
UNKNOWN: Final = "UNKNOWN"
FAILED: Final = "FAILED"

STATES: Final = (PENDING, INVOKED, COMMITTED, UNKNOWN, FAILED)
TERMINAL: Final = frozenset({COMMITTED, FAILED})

#: (from, to) -> event types that may carry an operation along that edge. `None` is "not there yet".
TRANSITIONS: Final[dict[tuple[str | None, str], frozenset[str]]] = {
    (None, PENDING): frozenset({"operation.recorded"}),
    (PENDING, INVOKED): frozenset({"operation.invoked"}),
    (PENDING, FAILED): frozenset({"operation.refused"}),
    (PENDING, UNKNOWN): frozenset({"operation.in_doubt"}),
    (PENDING, COMMITTED): frozenset({"operation.late_effect"}),
    (INVOKED, COMMITTED): frozenset({"operation.committed"}),
    (INVOKED, PENDING): frozenset({"operation.not_sent"}),
    (INVOKED, FAILED): frozenset({"operation.failed"}),
    (INVOKED, UNKNOWN): frozenset({"operation.in_doubt"}),
    (UNKNOWN, COMMITTED): frozenset({"operation.reconciled"}),
    (UNKNOWN, FAILED): frozenset({"operation.reconciled"}),
    (UNKNOWN, PENDING): frozenset({"operation.released", "operation.not_sent"}),
    (FAILED, COMMITTED): frozenset({"operation.late_effect"}),
    (FAILED, UNKNOWN): frozenset({"operation.in_doubt"}),
}

FAILURES: Final = (
    "denied",
    "expired",
    "withdrawn",
    "cancelled",
    "superseded",
    "budget_exceeded",
    "attempts_exhausted",
    "goal_exhausted",
    "provider_declined",
    "absent",
    "settled_absent",
)

#: What a non-terminal operation waits for.
WAITING_ON: Final = ("runtime", "approval", "sealing", "lease", "look", "person")
#: Somebody else than the runtime has to act.
WAITING_ON_OTHERS: Final = ("approval", "sealing", "look", "person")
#: The gate keeps the operation from being claimed.
SHUT_GATES: Final = ("waiting", "refused")

INCIDENT_KINDS: Final = (
    "args_conflict",
    "duplicate_effect",
    "late_effect",
    "effect_mismatch",
    "executed_without_approval",
    "executed_after_denial",
    "permanent_failure",
    "attempts_exhausted",
    "goal_exhausted",
    "budget_exceeded",
    "version_changed",
    "possible_duplicate",
    "record_id_reused",
    "replayed_too_often",
)


def allowed(from_state: str | None, to_state: str, event_type: str) -> bool:
    """Whether the table holds this edge under this event."""
    return event_type in TRANSITIONS.get((from_state, to_state), frozenset())
