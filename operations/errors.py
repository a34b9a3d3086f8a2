"""Every refusal of the domain: a code, its status, a sentence, and whether to try again.

Codes, statuses and retry advice stand in one table (design: the HTTP contract). The console's API
turns a `DomainError` into `application/problem+json`; nothing below it knows HTTP.
"""

from typing import Any, Final, NamedTuple

from django.db import IntegrityError


class Kind(NamedTuple):
    """What is the same for every refusal of one code."""

    status: int
    title: str
    retryable: bool = False
    retry_after_seconds: float | None = None


KINDS: Final[dict[str, Kind]] = {
    "NOT_FOUND": Kind(404, "Not found"),
    # Claim
    "ATTEMPT_IN_FLIGHT": Kind(409, "Another attempt holds a live lease", True, 1.0),
    "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS": Kind(
        409, "The same key was used with another tool or other arguments"
    ),
    "KEY_COLLISION": Kind(409, "One key for two calls, or two keys for one call"),
    "OPERATION_PREVIOUSLY_FAILED": Kind(409, "This operation has failed for good"),
    "DUPLICATE_RUN": Kind(409, "The trigger belongs to another run"),
    "COMPENSATION_EXISTS": Kind(409, "The operation is being compensated already"),
    "FINGERPRINT_MISMATCH": Kind(422, "The fingerprint is not that of the arguments"),
    "TOOL_CALL_ID_MISSING": Kind(422, "The tool call has no id"),
    "INVALID_ARGS": Kind(422, "The arguments are not unambiguous JSON"),
    "VALIDATION_ERROR": Kind(422, "A field is not valid"),
    "BUDGET_EXCEEDED": Kind(429, "The run's budget is used up"),
    "ATTEMPTS_EXHAUSTED": Kind(429, "Every attempt of this operation is used up"),
    "GOAL_ATTEMPTS_EXHAUSTED": Kind(429, "Too many operations for this goal have failed"),
    # Sending, heartbeat, outcome
    "LEASE_LOST": Kind(409, "The lease is over or belongs to another attempt"),
    "SEND_TOKEN_TAKEN": Kind(409, "Another process holds the permit of this attempt"),
    "ALREADY_COMMITTED": Kind(409, "The effect has already happened"),
    "APPROVAL_REVOKED": Kind(409, "The approval is no longer valid"),
    "KEY_EXPIRING": Kind(409, "The provider is about to forget the key"),
    "NOT_CANCELLABLE": Kind(409, "Only a pending operation can be cancelled"),
    # Settling
    "NOT_UNKNOWN": Kind(409, "The operation is not UNKNOWN any more"),
    "NOT_RELEASABLE": Kind(409, "The operation may not be released"),
    "APPROVAL_NOT_OPEN": Kind(409, "The approval is not open any more"),
    # The ledger
    "UNAVAILABLE": Kind(503, "Not available until the ledger is put right", True, 30.0),
}


class DomainError(Exception):
    """A refusal with a sentence; `extra` may hold pointer, idem_key, operation_url, failure…

    `retryable` and `retry_after_seconds` come from the table unless said otherwise.
    """

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        retry_after_seconds: float | None = None,
        **extra: Any,
    ) -> None:
        kind = KINDS[code]
        self.code = code
        self.status = kind.status
        self.title = kind.title
        self.detail = detail or f"{kind.title}."
        self.retryable = kind.retryable
        self.retry_after_seconds = (
            kind.retry_after_seconds if retry_after_seconds is None else retry_after_seconds
        )
        self.extra = {name: value for name, value in extra.items() if value is not None}
        super().__init__(f"{code}: {self.detail}")


class StateConflict(Exception):
    """A transition met a row that is not what its caller had locked: a defect, never news.

    Raised where compare-and-set changes no row although the row is locked. The transaction must
    end with it.
    """


#: Constraint name -> (code, sentence): what Postgres refused, in words.
CONSTRAINTS: Final[dict[str, tuple[str, str]]] = {
    "operation_has_one_live_compensation": (
        "COMPENSATION_EXISTS",
        "Only one compensation of an operation may be live at a time.",
    ),
    "operation_idem_key_is_unique": (
        "KEY_COLLISION",
        "The idempotency key belongs to another call.",
    ),
    "operation_call_is_unique": ("KEY_COLLISION", "The call has another idempotency key."),
    "run_trigger_is_unique_in_namespace": (
        "DUPLICATE_RUN",
        "The trigger was delivered before and belongs to another run.",
    ),
}


def of_constraint(error: IntegrityError) -> DomainError | None:
    """The domain error that a violated constraint stands for, or None where it is a defect."""
    name = getattr(getattr(error.__cause__, "diag", None), "constraint_name", None)
    known = CONSTRAINTS.get(name or "")
    return DomainError(*known) if known else None


def not_found(detail: str = "There is no such operation for this key.") -> DomainError:
    """It does not exist, or belongs to another namespace or environment: the same answer."""
    return DomainError("NOT_FOUND", detail)
