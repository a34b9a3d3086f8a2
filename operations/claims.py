"""What a runtime asks for, checked for shape and read strictly, and what it gets."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """ "May I execute this call?" `args` is the parsed value, `args_raw` its exact text."""

    run_id: str
    agent: str
    step: int
    tool: str
    args: Any
    args_raw: bytes
    tool_call_id: str = ""
    position: int | None = None
    agent_version: str | None = None
    prompt_version: str | None = None
    code_version: str | None = None
    trigger: str | None = None
    budget_max_steps: int | None = None
    budget_max_spend_minor: int | None = None
    budget_currency: str | None = None
    args_fingerprint: str | None = None
    redacted: tuple[str, ...] = ()
    goal: str | None = None
    reason: str | None = None
    model_output: bytes | None = None
    attempt_id: str | None = None
    layer: str = ""
    worker: str = ""
    lease_seconds: int | None = None
    fenced: bool = False
    send_token: str | None = None
    executor: str = "self"
    compensates: str | None = None
    idem_key: str | None = None

    @property
    def has_budget(self) -> bool:
        return self.budget_max_steps is not None or self.budget_max_spend_minor is not None

    @property
    def is_fenced(self) -> bool:
        """A send token implies the promise not to send without a permit."""
        return self.fenced or self.send_token is not None


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """ "This is what happened." `result` is the exact JSON text of the result, if there is one."""

    attempt_number: int
    outcome: str
    attempt_id: str | None = None
    send_token: str | None = None
    effect: str | None = None
    permanent: bool = False
    result: bytes | None = None
    provider_ref: str | None = None
    effect_status: str | None = None
    error: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        """committed, negative or unknown: `failed` without `effect: none` proves nothing."""
        if self.outcome == "failed":
            return "negative" if self.effect == "none" else "unknown"
        return self.outcome

    @property
    def replayed(self) -> bool:
        """Whether the provider answered with a saved failure of this very key."""
        return bool((self.error or {}).get("replayed"))


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to send: counted by the sender from before it asked."""

    at: datetime
    until: datetime
    within_ms: int


@dataclass(frozen=True, slots=True)
class Grant:
    """The caller holds the lease. Without a permit it may not send yet, if it is fenced."""

    attempt_number: int
    attempt_id: str
    lease_expires_at: datetime
    first_sent_at: datetime | None
    permit: Permit | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and headers of a claim's 2xx answer."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
