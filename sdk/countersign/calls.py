"""What is passed in and handed out: the run, the call, the cleared call, the result."""

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict

from countersign import canonical
from countersign.clock import Countdown
from countersign.errors import PermitLapsed

OnWait = Literal["wait", "park"]
OnUnknown = Literal["wait", "raise"]


class CallOptions(TypedDict, total=False):
    """What may be said about a call beside what it must say.

    `position` numbers parallel calls of one message. `timeout` is how many seconds to wait for a
    person, another process or reconciliation. `attempts` is how often a call that provably had no
    effect is tried before its exception is raised. `safe` lets a tool that only reads go on while
    the console is away (reported afterwards).
    """

    position: int | None
    goal: str | None
    reason: str | None
    model_output: Any
    lease_seconds: int | None
    on_wait: OnWait
    on_unknown: OnUnknown
    timeout: float
    attempts: int
    safe: bool
    attempt_id: str | None
    layer: str | None
    worker: str | None
    redacted: list[str]
    compensates: str | None
    idem_key: str | None
    executor: str


@dataclass(frozen=True)
class RunInfo:
    """Who runs, and on which versions. Only `id` and `agent` are needed."""

    id: str
    agent: str
    agent_version: str | None = None
    prompt_version: str | None = None
    code_version: str | None = None
    trigger: str | None = None
    budget: Mapping[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        members = {
            "id": self.id,
            "agent": self.agent,
            "agent_version": self.agent_version,
            "prompt_version": self.prompt_version,
            "code_version": self.code_version,
            "trigger": self.trigger,
            "budget": dict(self.budget) if self.budget is not None else None,
        }
        return {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True)
class Call:
    """One tool call at one step of one run, with its arguments frozen in canonical form."""

    run: RunInfo
    step: int
    tool_call_id: str
    tool: str
    args_bytes: bytes
    args_fingerprint: str
    idem_key: str
    options: CallOptions = field(default_factory=CallOptions)

    @classmethod
    def of(
        cls,
        run: RunInfo,
        step: int,
        tool_call_id: str,
        tool: str,
        args: Any,
        options: CallOptions,
    ) -> "Call":
        """Raises NotCanonical for arguments that JSON cannot say, ValueError for a missing id."""
        args_bytes = canonical.canonicalize(args)
        key = options.get("idem_key") or canonical.derive_key(
            run.id, step, tool_call_id, options.get("position")
        )
        digest = canonical.fingerprint_of(args_bytes)
        return cls(run, step, tool_call_id, tool, args_bytes, digest, key, options)

    @property
    def timeout(self) -> float:
        return self.options.get("timeout", 3600.0)


@dataclass(frozen=True)
class Ticket:
    """One try's identity: its id, and the token that only this process and the console know."""

    attempt_id: str
    send_token: str

    @classmethod
    def fresh(cls, attempt_id: str | None = None) -> "Ticket":
        return cls(attempt_id or new_id(), secrets.token_urlsafe(32))


@dataclass
class Lease:
    """The right to try now, kept alive by heartbeats. `lost` once the console says so."""

    idem_key: str
    attempt_number: int
    seconds: float
    lost: bool = False


@dataclass(frozen=True)
class ClearedCall:
    """A call that may be executed now: `args` are exactly those that were claimed (and approved).

    Put `idem_key` into the provider's request. Where work precedes the sending, call
    `ensure_permit()` right before the bytes leave.
    """

    run_id: str
    step: int
    tool_call_id: str
    tool: str
    idem_key: str
    args_bytes: bytes
    args_fingerprint: str
    attempt_number: int
    attempt_id: str
    first_sent_at: str | None
    grant: str | None
    permit: Countdown
    lease: Lease

    @property
    def args(self) -> Any:
        """The arguments, parsed anew at each reading: a hook that changes them changes a copy."""
        return json.loads(self.args_bytes)

    @property
    def lease_lost(self) -> bool:
        return self.lease.lost

    def with_permit(self, permit: Countdown) -> "ClearedCall":
        return replace(self, permit=permit)

    def ensure_permit(self) -> None:
        """Raises PermitLapsed when it is too late to send; then send nothing."""
        if self.permit.left() <= 0 or self.lease.lost:
            raise PermitLapsed(
                f"The permit to send {self.tool} ran out before it was sent (the process was slow,"
                " stopped or asleep). Nothing left this process."
            )


@dataclass(frozen=True)
class Done:
    """What an effect may return to say more than its result: the provider's id and status."""

    result: Any = None
    provider_ref: str | None = None
    effect_status: str | None = None


@dataclass(frozen=True)
class Result:
    """What the call did, now or before.

    `value` is what the effect returned when it ran here; `result` is what is recorded, which is
    all that a replay has. `reported` is False while the report waits in the local spool.
    """

    value: Any
    result: Any
    replayed: bool
    idem_key: str
    provider_ref: str | None = None
    effect_status: str | None = None
    attempt_number: int | None = None
    reported: bool = True
    operation: Mapping[str, Any] | None = None

    @property
    def execution(self) -> str:
        return "replayed" if self.replayed else "fresh"


Effect = Callable[[ClearedCall], Any]


def new_id() -> str:
    """A time-ordered identifier (UUIDv7, as hex)."""
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return f"{value & ~(0x3 << 62) | 0x2 << 62:032x}"
