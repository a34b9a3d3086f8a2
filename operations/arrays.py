"""Columns of many rows as Postgres array literals, for `unnest` in set-based statements. Pure.

psycopg dumps a list element by element in Python; for thousands of rows that costs more than the
statement itself. A literal is one string, read by Postgres in C, and written in C wherever JSON
writes a list as Postgres reads an array: quotes and backslashes are escaped alike, and `null`,
`true` and `false` mean the same. Only control characters are spelled differently.
"""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final
from uuid import UUID


def _spelled(value: Any) -> str:
    """What JSON has no spelling for: a UUID as its digits, the rest as its own text."""
    return f"{value.int:032x}" if isinstance(value, UUID) else str(value)


_write: Final[Callable[[Any], str]] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=_spelled
).encode
_document: Final[Callable[[Any], str]] = json.JSONEncoder(default=str).encode


def texts(values: Iterable[str | None]) -> str:
    """A `text[]` literal."""
    listed = list(values)
    literal = _write(listed)
    if "\\" in literal:  # something was escaped, perhaps a control character
        return _array("NULL" if value is None else _quoted(value) for value in listed)
    return "{" + literal[1:-1] + "}"


def plain(values: Iterable[Any]) -> str:
    """A literal of numbers, booleans or UUIDs: what needs no quoting."""
    return "{" + _write(list(values))[1:-1] + "}"


def moments(values: Iterable[datetime | None]) -> str:
    """A `timestamptz[]` literal."""
    return _array("NULL" if value is None else value.isoformat() for value in values)


def binaries(values: Iterable[bytes | None]) -> str:
    """A `bytea[]` literal."""
    return _array("NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values)


def documents(values: Iterable[Any]) -> str:
    """A `jsonb[]` literal; None is SQL's NULL."""
    # The text of a document is printable ASCII: what is escaped in it are quotes and backslashes.
    written = [
        None if value is None else "[]" if value == [] else _document(value) for value in values
    ]
    return "{" + _write(written)[1:-1] + "}"


def _array(elements: Iterable[str]) -> str:
    return "{" + ",".join(list(elements)) + "}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
