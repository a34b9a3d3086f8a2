"""The route table: one line an endpoint, and how a path finds its line."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import unquote_to_bytes

from console.api import bodies

#: A segment each: the name of a parameter, or the literal text.
Pattern = list[tuple[str, bytes]]
Who = Literal["runtime", "reviewer", "either", "anyone"]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one address.

    `handler(request) -> Answer` runs in a worker thread; an `async def` runs in the event loop
    and is cancelled when its client hangs up. `member(request)` is what may be carried out with
    others instead (`console.api.groups`), or None.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    who: Who = "runtime"
    scope: str = ""
    member: Callable[..., Any] | None = None
    media: tuple[str, ...] = (bodies.JSON,)
    limit: int = bodies.BODY_LIMIT

    @property
    def has_body(self) -> bool:
        """Whether a body is read at all."""
        return self.method in ("POST", "PUT", "PATCH")

    @property
    def is_async(self) -> bool:
        """Whether the handler runs in the event loop."""
        return inspect.iscoroutinefunction(self.handler)


@dataclass(frozen=True, slots=True)
class Address:
    """Every method of one address, and the parameters that the path gave."""

    methods: Mapping[str, tuple[Route, bool]]
    params: Mapping[str, str]

    @property
    def allowed(self) -> str:
        """The Allow header."""
        names = set(self.methods) | {"OPTIONS"}
        return ", ".join(sorted(names | ({"HEAD"} if "GET" in names else set())))


class Table:
    """Finds the route of a path. Parameters are whole segments, percent-decoded after the split."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes: Final = routes
        self._exact: dict[bytes, dict[str, tuple[Route, bool]]] = {}
        self._by_length: dict[int, list[tuple[Pattern, dict[str, tuple[Route, bool]]]]] = {}
        for route in routes:
            self._add(route)

    def find(self, raw_path: bytes) -> Address | None:
        """The address that a path (as sent, without its query) names."""
        methods = self._exact.get(raw_path)
        if methods is not None:
            return Address(methods, {})
        segments = raw_path.split(b"/")
        for pattern, methods in self._by_length.get(len(segments), ()):
            params = _match(pattern, segments)
            if params is not None:
                return Address(methods, params)
        return None

    def _add(self, route: Route) -> None:
        entry = (route, route.is_async)
        if "{" not in route.path:
            self._exact.setdefault(route.path.encode(), {})[route.method] = entry
            return
        pattern = [
            (part[1:-1], b"") if part.startswith("{") else ("", part.encode())
            for part in route.path.split("/")
        ]
        rows = self._by_length.setdefault(len(pattern), [])
        for known, methods in rows:
            if known == pattern:
                methods[route.method] = entry
                return
        rows.append((pattern, {route.method: entry}))


def _match(pattern: Pattern, segments: list[bytes]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for (name, literal), segment in zip(pattern, segments, strict=True):
        if name:
            try:
                value = unquote_to_bytes(segment).decode()
            except UnicodeDecodeError:
                return None
            if not value or "\x00" in value:
                return None
            params[name] = value
        elif literal != segment:
            return None
    return params
