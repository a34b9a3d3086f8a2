"""Rows of the customer's query, as sightings: bounded, as text, and only the columns that we know.

The query is wrapped, so it can be nothing but one SELECT, and a table without end gives a few rows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from psycopg import sql

from reconcilers.evidence import Sighting, Stage
from reconcilers.providers.base import ProviderError, Question

#: What a row may tell, and how its columns are called where `columns` does not say otherwise.
COLUMNS: Final[Mapping[str, str]] = {
    "id": "id",
    "marker": "idem_key",
    "status": "status",
    "amount_minor": "amount_minor",
    "currency": "currency",
    "created_at": "created_at",
    "fingerprint": "args_fingerprint",
    "mode": "mode",
}
_NEEDED: Final = ("id", "marker")
#: Two rows with our key already are a duplicate; no more are read.
MOST_ROWS: Final = 5
_LONGEST_TEXT: Final = 400


@dataclass(frozen=True)
class Shape:
    """Which of our names the query has a column for, and the statement that reads them."""

    names: tuple[str, ...]
    statement: sql.Composed


def parameters(question: Question) -> dict[str, Any]:
    """What a configured statement may name."""
    return {"key": question.marker, "since": question.window_from}


def described(query: str) -> sql.Composed:
    """A statement that reads no row and tells the query's columns."""
    return sql.SQL("SELECT * FROM (\n{}\n) AS asked LIMIT 0").format(_raw(query))


def shape_of(query: str, config: Mapping[str, Any], columns: Sequence[str]) -> Shape:
    """How to read the query's rows; raises ProviderError where it lacks what a look needs."""
    called = dict(COLUMNS) | config.get("columns", {})
    names = tuple(name for name in COLUMNS if called[name] in columns)
    named = config.get("columns", {})
    for name in COLUMNS:
        if name not in names and (name in _NEEDED or name in named):
            raise ProviderError(f"the query gives no column {called[name]}", permanent=True)
    picked = [
        sql.SQL("left(asked.{}::text, {})").format(sql.Identifier(called[name]), _LONGEST_TEXT)
        for name in names
    ]
    statement = sql.SQL("SELECT {} FROM (\n{}\n) AS asked LIMIT {}").format(
        sql.SQL(", ").join(picked), _raw(query), MOST_ROWS
    )
    return Shape(names, statement)


def _raw(query: str) -> sql.SQL:
    # The administrator's own statement, from the account's configuration; our key is a parameter.
    return sql.SQL(query)


@dataclass(frozen=True)
class Reading:
    """What one read gave: objects of ours, and whether our own tombstone lies there."""

    sightings: tuple[Sighting, ...]
    buried: bool
    raw: bytes


def read(
    shape: Shape, rows: Sequence[Sequence[str | None]], config: Mapping[str, Any], marker: str
) -> Reading:
    """Rows with exactly our key; raises ProviderError where a row cannot be understood."""
    members = [dict(zip(shape.names, row, strict=True)) for row in rows]
    ours = [row for row in members if row["marker"] == marker]
    tombstone = config.get("tombstone_status")
    buried = [row for row in ours if tombstone and row.get("status") == tombstone]
    sightings = tuple(_sighting(row, config) for row in ours if row not in buried)
    return Reading(sightings, bool(buried), json.dumps(members).encode())


def _sighting(row: Mapping[str, str | None], config: Mapping[str, Any]) -> Sighting:
    if not row["id"]:
        raise ProviderError("a row with our key and without an id", permanent=True)
    return Sighting(
        id=row["id"],
        kind="row",
        status=row.get("status") or "",
        stage=_stage(row, config.get("statuses", {})),
        marker=row["marker"],
        verified=True,
        amount_minor=_amount(row.get("amount_minor")),
        currency=(row.get("currency") or "").strip().upper() or None,
        fingerprint=row.get("fingerprint") or None,
        mode=row.get("mode") or "",
        created_at=_instant(row.get("created_at")),
    )


def _stage(row: Mapping[str, str | None], statuses: Mapping[str, Sequence[str]]) -> Stage:
    """Where no status is told, the row is the effect; a status that is not known counts as open."""
    if "status" not in row or not statuses:
        return Stage.DONE
    for stage in Stage:
        if row["status"] in statuses.get(stage.value, ()):
            return stage
    return Stage.IN_FLIGHT


def _amount(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ProviderError("amount_minor is no number", permanent=True) from None
    if not amount.is_finite() or amount != amount.to_integral_value():
        raise ProviderError("amount_minor is no whole number of minor units", permanent=True)
    return int(amount)


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ProviderError("created_at is no time", permanent=True) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
