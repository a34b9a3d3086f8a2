"""Columns of many rows as Postgres array literals, for `unnest` in set-based statements. Pure.

psycopg dumps a list element by element in Python; for thousands of rows that costs more than the
statement itself. A literal is one string, read by Postgres in C.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from json.encoder import encode_basestring
from typing import Any


def texts(values: Iterable[str | None]) -> str:
    """A `text[]` literal."""
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def plain(values: Iterable[Any]) -> str:
    """A literal of numbers, booleans or UUIDs: what needs no quoting."""
    return _array("NULL" if value is None else str(value) for value in values)


def moments(values: Iterable[datetime | None]) -> str:
    """A `timestamptz[]` literal."""
    return _array("NULL" if value is None else value.isoformat() for value in values)


def binaries(values: Iterable[bytes | None]) -> str:
    """A `bytea[]` literal."""
    return _array("NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values)


def documents(values: Iterable[Any]) -> str:
    """A `jsonb[]` literal; None is SQL's NULL."""
    return texts(None if value is None else json.dumps(value, default=str) for value in values)


def _array(elements: Iterable[str]) -> str:
    return "{" + ",".join(elements) + "}"


def _quoted(value: str) -> str:
    # JSON escapes quotes and backslashes as an array literal does, and is written in C; control
    # characters it would spell in a way of its own.
    if value.isprintable():
        return encode_basestring(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
