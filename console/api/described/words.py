"""How one route is put into words, and the query parameters that many share."""

from dataclasses import dataclass, field
from typing import Any, Final

Schema = dict[str, Any]
Query = dict[str, tuple[Schema, str]]

V1: Final = "/api/v1"


@dataclass(frozen=True, kw_only=True)
class Words:
    """Words for one route. `answers` maps a status to (what it means, schema, example)."""

    summary: str
    group: str
    says: str = ""
    body: Schema | None = None
    body_example: Any = None
    ndjson: Schema | None = None
    query: Query = field(default_factory=dict)
    answers: dict[int, tuple[str, Schema, Any]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    media: str = "application/json"


Described = dict[tuple[str, str], Words]

TEXT: Final[Schema] = {"type": "string"}
WAIT: Final[Query] = {
    "wait": ({"type": "number", "minimum": 0, "maximum": 30}, "Seconds to wait for a change."),
    "since": ({"type": "integer"}, "The version that the caller has; without it nothing waits."),
}
PAGES: Final[Query] = {
    "cursor": (TEXT, "`next_cursor` of the page before."),
    "limit": ({"type": "integer", "minimum": 1, "maximum": 200}, "Items a page; 50 by default."),
}
