"""The tools' part of a catalogue file: read it strictly, say what it would change, publish it.

Members and their defaults are those of `ToolFacts`; an unknown member is refused, since a typo
(`clas: safe`) must not silently leave a tool unsafe, or gated, or without its reconciler.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from django.db import connection

from operations.catalogue import ToolFacts
from operations.models.catalogue import TOOL_CLASSES


class InvalidCatalogue(ValueError):
    """A catalogue file that cannot be taken; `path` names the member, e.g. `tools[2].class`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _at_least_one(value: Any) -> bool:
    return _count(value) and value >= 1


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _exponents(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and type(n) is int and 0 <= n <= 6 for name, n in value.items()
    )


Check = Callable[[Any], bool]
#: Member of the file (dotted where nested) -> column, check, what it must be.
_MEMBERS: Final[dict[str, tuple[str, Check, str]]] = {
    "name": ("name", lambda v: _text(v) and _is_tool_name(v), "a name of 1-200 of A-Za-z0-9_.:/-"),
    "class": ("tool_class", lambda v: v in TOOL_CLASSES, "safe, idempotent or unsafe"),
    "provider": ("provider", _text, "text"),
    "reconciler": ("reconciler", _text, "text"),
    "object": ("provider_object", _text, "text"),
    "lookups": ("lookups", _texts, "a list of names"),
    "uniqueness_guard": ("uniqueness_guard", _text, "text"),
    "key.accepts": ("accepts_key", _flag, "true or false"),
    "key.retention_hours": ("key_retention_hours", _at_least_one, "a number of hours"),
    "client_timeout_seconds": ("client_timeout_seconds", _at_least_one, "a number of seconds"),
    "client_tries": ("client_tries", _at_least_one, "a number of at least 1"),
    "provider_max_seconds": ("provider_max_seconds", _count, "a number of seconds"),
    "marker": ("marker", _flag, "true or false"),
    "lease_seconds": (
        "lease_seconds", lambda v: _count(v) and 1 <= v <= 3600, "1 to 3600 seconds",
    ),
    "amount.pointer": ("amount_pointer", lambda v: _text(v) and v[:1] == "/", "a JSON Pointer"),
    "amount.currency_pointer": (
        "currency_pointer", lambda v: _text(v) and v[:1] == "/", "a JSON Pointer",
    ),
    "amount.currency": (
        "currency", lambda v: _text(v) and len(v) == 3 and v.isalpha(), "three letters",
    ),
    "amount.unit": ("amount_unit", lambda v: v in ("minor", "major"), "minor or major"),
    "amount.exponents": ("exponents", _exponents, "a table of currency: digits"),
    "redact": ("redact", _texts, "a list of JSON Pointers"),
    "retention_days": ("retention_days", _count, "a number of days"),
    "attempts.transient": ("attempts_transient", _at_least_one, "a number of at least 1"),
    "attempts.permanent": ("attempts_permanent", _count, "a number"),
    "attempts.per_goal": ("attempts_per_goal", _at_least_one, "a number of at least 1"),
}  # fmt: skip
_GROUPS: Final = frozenset(name.partition(".")[0] for name in _MEMBERS if "." in name)
_COLUMNS: Final = tuple(column for column, _, _ in _MEMBERS.values())
_JSON: Final = ("lookups", "exponents", "redact")


def read_tools(tools: Any, path: str = "tools") -> dict[str, dict[str, Any]]:
    """The tools of a file as column values by name; InvalidCatalogue where anything is wrong."""
    if not isinstance(tools, list):
        raise InvalidCatalogue(path, "must be a list of tools")
    found: dict[str, dict[str, Any]] = {}
    for index, entry in enumerate(tools):
        at = f"{path}[{index}]"
        tool = _read_tool(entry, at)
        if tool["name"] in found:
            raise InvalidCatalogue(f"{at}.name", f"{tool['name']} is named twice")
        found[tool["name"]] = tool
    return found


def _read_tool(entry: Any, at: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise InvalidCatalogue(at, "must be a mapping with at least a name")
    defaults = ToolFacts("")
    tool = {column: getattr(defaults, column) for column in _COLUMNS}
    for name, value in _flat(entry, at):
        column, is_valid, wanted = _MEMBERS[name]
        if not is_valid(value):
            raise InvalidCatalogue(f"{at}.{name}", f"must be {wanted}, not {value!r}")
        tool[column] = value
    if not tool["name"]:
        raise InvalidCatalogue(f"{at}.name", "is missing")
    if tool["accepts_key"] and tool["key_retention_hours"] is None:
        raise InvalidCatalogue(
            f"{at}.key.retention_hours", "is missing: how long does the provider keep a key?"
        )
    tool["currency"] = tool["currency"].upper()
    return tool | {name: _plain(tool[name]) for name in _JSON}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _flat(entry: dict[Any, Any], at: str) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in entry.items():
        if name in _GROUPS and isinstance(value, dict):
            flat += [(f"{name}.{inner}", item) for inner, item in value.items()]
        else:
            flat.append((str(name), value))
    for name, _ in flat:
        if name not in _MEMBERS:
            known = ", ".join(sorted(_MEMBERS))
            raise InvalidCatalogue(f"{at}.{name}", f"is not known. Known members: {known}")
    return flat


def _is_tool_name(name: str) -> bool:
    return 1 <= len(name) <= 200 and all(
        char.isascii() and (char.isalnum() or char in "_.:/-") for char in name
    )


def published() -> dict[str, dict[str, Any]]:
    """The current tools as column values by name."""
    with connection.cursor() as cur:
        cur.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM operations_tool"  # noqa: S608
            " WHERE superseded_in IS NULL ORDER BY name"
        )
        rows = [dict(zip(_COLUMNS, row, strict=True)) for row in cur.fetchall()]
    for row in rows:
        row.update({name: _decoded(row[name]) for name in _JSON})
    return {row["name"]: row for row in rows}


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str | bytes) else value


def export() -> list[dict[str, Any]]:
    """The current tools as a file writes them, without what is a default."""
    defaults = _read_tool({"name": "x"}, "")
    written = []
    for tool in published().values():
        entry: dict[str, Any] = {}
        for name, (column, _, _) in _MEMBERS.items():
            if name != "name" and tool[column] == defaults[column]:
                continue
            group, dot, inner = name.partition(".")
            if dot:
                entry.setdefault(group, {})[inner] = tool[column]
            else:
                entry[name] = tool[column]
        written.append(entry)
    return written


def diff(tools: dict[str, dict[str, Any]]) -> list[str]:
    """What publishing these tools would change, a line each."""
    existing = published()
    lines = [f"- tool {name}" for name in existing if name not in tools]
    for name, tool in tools.items():
        if name not in existing:
            lines.append(f"+ tool {name} ({tool['tool_class']})")
            continue
        for member, (column, _, _) in _MEMBERS.items():
            before, after = existing[name][column], tool[column]
            if before != after:
                lines.append(f"~ tool {name} {member}: {before!r} -> {after!r}")
    return lines


def apply(tools: dict[str, dict[str, Any]], version: int) -> None:
    """Write the tools that differ as rows of this version, in the caller's transaction."""
    existing = published()
    changed = [tool for name, tool in tools.items() if existing.get(name) != tool]
    gone = [name for name in existing if name not in tools] + [tool["name"] for tool in changed]
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE operations_tool SET superseded_in = %s"
            " WHERE superseded_in IS NULL AND name = ANY(%s)",
            (version, gone),
        )
        for tool in changed:
            values = [json.dumps(tool[c]) if c in _JSON else tool[c] for c in _COLUMNS]
            cur.execute(
                f"INSERT INTO operations_tool (version, {', '.join(_COLUMNS)})"  # noqa: S608
                f" VALUES (%s{', %s' * len(_COLUMNS)})",
                [version, *values],
            )


def publish_version(document: dict[str, Any], actor: str) -> int:
    """A new catalogue version that bears the whole document; locks out a second publisher."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    with connection.cursor() as cur:
        cur.execute("LOCK TABLE operations_catalogueversion IN SHARE ROW EXCLUSIVE MODE")
        cur.execute(
            "INSERT INTO operations_catalogueversion"
            " (version, published_at, published_by, document, sha256)"
            " SELECT coalesce(max(version), 0) + 1, clock_timestamp(), %s, %s, %s"
            " FROM operations_catalogueversion RETURNING version",
            (actor, text, digest),
        )
        version: int = cur.fetchone()[0]
    return version
