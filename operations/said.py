"""Rows for a set-based statement, bound as one JSON document that Postgres reads in C.

Binding forty columns of some rows one by one, or as forty arrays, costs more than the statement.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def document(rows: Iterable[Mapping[str, Any]]) -> str:
    """The text to bind as `said`: bytes as hex, UUIDs and times as their text."""
    return json.dumps(list(rows), default=_default)


def cte(columns: Mapping[str, str]) -> str:
    """The CTE `said` with these columns and their Postgres types, bound by the name `said`.

    MATERIALIZED, so that the document is read once.
    """
    listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    rows = f"json_to_recordset(%(said)s::json) AS s({listed})"
    return f"said AS MATERIALIZED (SELECT * FROM {rows})"  # noqa: S608 -- our own names


def _default(value: Any) -> str:
    return "\\x" + value.hex() if isinstance(value, bytes) else str(value)
