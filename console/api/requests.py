"""One request as the endpoints see it, and one answer as they give it."""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from approvals.models import User
from console.api import problems
from operations.actors import Runtime

if TYPE_CHECKING:
    from console.api.process import Process


@dataclass(frozen=True, slots=True)
class Reviewer:
    """A person at a command line, known by a reviewer token."""

    user: User
    session: str


Caller = Runtime | Reviewer | None


@dataclass(slots=True)
class Request:
    """A request whose address, credential and body bounds were checked already."""

    method: str
    path: str
    params: Mapping[str, str]
    query_string: bytes
    headers: Mapping[bytes, bytes]
    request_id: str
    process: "Process"
    caller: Caller = None
    body: bytes = b""
    media_type: str = ""

    @property
    def runtime(self) -> Runtime:
        """The agent runtime that asks; only for routes that admit no one else."""
        if not isinstance(self.caller, Runtime):
            raise problems.scope_missing("This needs the API key of an agent runtime.")
        return self.caller

    @property
    def reviewer(self) -> Reviewer:
        """The person who asks; only for routes that admit no one else."""
        if not isinstance(self.caller, Reviewer):
            raise problems.scope_missing("This needs a reviewer token; an API key never decides.")
        return self.caller

    def query(self, *known: str) -> dict[str, str]:
        """The query's parameters; one that is unknown or given twice is refused by its name."""
        if not self.query_string:
            return {}
        found: dict[str, str] = {}
        try:
            pairs = parse_qsl(
                self.query_string.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=50,
            )
        except ValueError:
            raise problems.invalid("The query string cannot be read.", "?") from None
        for name, value in pairs:
            if name not in known:
                raise problems.unknown_field(name, f"?{name}")
            if name in found:
                raise problems.invalid(f"{name!r} is given twice.", f"?{name}")
            if "\x00" in value:
                raise problems.invalid(f"{name!r} holds a NUL character.", f"?{name}")
            found[name] = value
        return found


@dataclass(slots=True)
class Answer:
    """Status, JSON body (or bytes that are sent as they are) and headers."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: bytes = b"application/json"
    stream: AsyncGenerator[bytes, None] | None = None

    def encode(self) -> bytes:
        """The body as bytes."""
        if isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode()


def whole_number(query: Mapping[str, str], name: str, *, low: int, high: int) -> int | None:
    """A query parameter that is a whole number between `low` and `high`."""
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
        raise problems.invalid(f"{name!r} is a whole number from {low} to {high}.", f"?{name}")
    return int(text)


def seconds(query: Mapping[str, str], name: str, *, most: float) -> float:
    """A query parameter in seconds, cut to `most`; 0 where it is not given."""
    try:
        value = float(query.get(name, "0"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise problems.invalid(f"{name!r} is a number of seconds.", f"?{name}")
    return min(value, most)
