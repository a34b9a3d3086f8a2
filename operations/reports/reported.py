"""What one record says, read strictly, or why it is malformed. Pure."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from operations import canonical
from operations.fold import Fact

ACCEPTED = "accepted"
DUPLICATE = "duplicate"
MALFORMED = "malformed"
INCIDENT = "incident"


class Malformed(Exception):
    """A record that is wrong in itself: kept, visible, never judged."""

    def __init__(self, code: str, pointer: str) -> None:
        super().__init__(code)
        self.code = code
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class RunSaid:
    """What a record says about its run; None is unsaid."""

    id: str
    agent: str | None = None
    agent_version: str | None = None
    prompt_version: str | None = None
    code_version: str | None = None
    trigger: str | None = None
    budget_max_steps: int | None = None
    budget_max_spend_minor: int | None = None
    budget_currency: str | None = None


@dataclass(slots=True)
class Reported:
    """One record of a batch. `status`, `code`, `pointer` and `idem_key` end up in the answer."""

    body: bytes
    record_id: str
    status: str = ACCEPTED
    code: str | None = None
    pointer: str | None = None
    type: str | None = None
    run: RunSaid | None = None
    step: int | None = None
    tool_call_id: str = ""
    position: int | None = None
    id_missing: bool = False
    tool: str | None = None
    args: Any = None
    args_raw: bytes | None = None
    args_fingerprint: str | None = None
    idem_key: str | None = None
    derived_key: str | None = None
    attempt_id: str = ""
    layer: str = ""
    worker: str = ""
    effect: str | None = None
    permanent: bool = False
    replayed: bool = False
    provider_ref: str | None = None
    effect_status: str | None = None
    #: Over the canonical result; None where there is none.
    result_sha256: bytes | None = None
    error: Any = None
    goal: str | None = None
    has_model_output: bool = False
    occurred_at: datetime | None = None
    text: str = ""
    #: The code of what it contradicts about the call it names, whatever else is wrong with it.
    conflict: str | None = None
    #: Under which id it is kept: its own, or a longer one where its own was used already.
    kept_as: str = ""

    @property
    def sha256(self) -> bytes:
        return sha256(self.body).digest()

    @property
    def is_about_operation(self) -> bool:
        return self.derived_key is not None

    def raw(self, name: str) -> bytes:
        """The exact text of a member that the record has."""
        return canonical.member_text(self.text, name).encode()

    def spoil(self, code: str, pointer: str) -> None:
        """Keep it as malformed."""
        self.status, self.code, self.pointer = MALFORMED, code, pointer
        self.derived_key = self.run = None

    def fact(self) -> Fact:
        return Fact(
            self.type or "",
            self.attempt_id,
            self.effect,
            self.permanent,
            self.replayed,
            self.provider_ref,
            self.result_sha256,
        )
