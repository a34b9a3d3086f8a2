"""The commands that the protocol gives and the two drivers (threads, asyncio) carry out.

The protocol itself is generators that yield these and are sent what came of them: it is written
once, waits for nothing by itself, and can be tested without a network or a clock.
"""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from countersign.calls import ClearedCall, Effect
from countersign.clock import Instant


@dataclass(frozen=True)
class Send:
    """Ask the console. Answered by a `Reply`, whatever happens."""

    method: str
    path: str
    body: bytes | None = None
    seconds: float = 15.0


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Execute:
    """Call the effect, after a last look at the permit. Answered by `Returned` or `Raised`."""

    effect: Effect
    cleared: ClearedCall


@dataclass(frozen=True)
class Work:
    """Something that touches a disk; answered by what it returns."""

    do: Callable[[], Any]


Command = Send | Pause | Execute | Work


@dataclass(frozen=True)
class Returned:
    value: Any


@dataclass(frozen=True)
class Raised:
    """`sent` is False where the effect was never called."""

    error: BaseException
    sent: bool = True


@dataclass(frozen=True)
class Reply:
    """The console's answer, or that there was none (`status` None).

    `asked_at` is from before the request left: permits are counted from there. `reached` is False
    where the request certainly never arrived.
    """

    asked_at: Instant
    status: int | None = None
    body: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    reached: bool = True
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def code(self) -> str | None:
        return self.body.get("code") if not self.ok else None

    @property
    def passing(self) -> bool:
        """Whether the same request may be answered another time: no answer, an answer that is not
        the console's (a proxy's 502), or one of its own that says so of itself."""
        if self.status is None or self.status >= 500:
            return True
        return self.status == 429 and self.code in (None, "RATE_LIMITED")

    def said(self) -> str:
        """For people: what came back."""
        if self.status is None:
            return self.error
        detail = self.body.get("detail") or self.body.get("title") or "no explanation"
        return f"{self.status} {self.code or ''} {detail}".replace("  ", " ")


type Steps[T] = Generator[Command, Any, T]


def reply_from(asked_at: Instant, status: int, headers: dict[str, str], content: bytes) -> Reply:
    """A reply as both drivers read it from their HTTP library. Header names in lower case."""
    try:
        body = json.loads(content) if content else {}
    except ValueError:
        body = {}
    after = headers.get("retry-after", "")
    return Reply(
        asked_at,
        status,
        body if isinstance(body, dict) else {},
        retry_after=_seconds(body, after),
    )


def _seconds(body: Any, header: str) -> float | None:
    told = body.get("retry_after_seconds") if isinstance(body, dict) else None
    if isinstance(told, int | float):
        return float(told)
    return float(header) if header.replace(".", "", 1).isdigit() else None
