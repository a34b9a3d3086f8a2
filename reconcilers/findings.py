"""Looks as rows: every one is kept, with a digest of the answer, and read back as it was."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from operations import arrays
from reconcilers.evidence import Look, Outcome, Sighting, Stage
from reconcilers.providers.base import KnownObject

#: Columns, oldest looks first, and their types in Postgres.
_COLUMNS: Final = {
    "operation_id": "uuid",
    "account_id": "uuid",
    "lookup": "text",
    "lookup_class": "text",
    "outcome": "text",
    "reason": "text",
    "endpoint": "text",
    "account_seen": "text",
    "mode": "text",
    "started_at": "timestamptz",
    "ended_at": "timestamptz",
    "pages": "int",
    "rows": "int",
    "complete": "bool",
    "exhaustive": "bool",
    "covers_from": "timestamptz",
    "control_passed": "bool",
    "request_id": "text",
    "objects_seen": "jsonb",
    "answer_sha256": "bytea",
    "answer": "bytea",
}
_LITERALS: Final[dict[str, Callable[[Iterable[Any]], str]]] = {
    "text": arrays.texts,
    "timestamptz": arrays.moments,
    "jsonb": arrays.texts,
    "bytea": arrays.binaries,
    **dict.fromkeys(("uuid", "int", "bool"), arrays.plain),
}
_INSERT: Final = f"""
INSERT INTO reconcilers_finding ({", ".join(f'"{name}"' for name in _COLUMNS)})
SELECT * FROM unnest({", ".join(f"%s::{kind}[]" for kind in _COLUMNS.values())})
"""  # noqa: S608
_READ: Final = tuple(_COLUMNS)[2:19]
_SELECT: Final = f"""
SELECT operation_id, id, {", ".join(f'"{name}"' for name in _READ)}
  FROM reconcilers_finding WHERE operation_id = ANY(%s) ORDER BY id
"""  # noqa: S608
_KNOWN: Final = """
SELECT objects_seen FROM reconcilers_finding
 WHERE account_id = %s AND outcome = 'hit' AND ended_at > clock_timestamp() - interval '30 days'
 ORDER BY ended_at DESC LIMIT 20
"""


def store(cur: Any, account_id: UUID | None, looks: Iterable[tuple[UUID, Look]]) -> None:
    """Keep looks, oldest first. Nothing ever edits them."""
    rows = [_row(operation_id, account_id, look) for operation_id, look in looks]
    if rows:
        # psycopg binds thousands of values one by one; a literal for each column goes as it is.
        columns = zip(_COLUMNS.values(), zip(*rows, strict=True), strict=True)
        cur.execute(_INSERT, [_LITERALS[kind](values) for kind, values in columns])


def load(cur: Any, operation_ids: Sequence[UUID]) -> dict[UUID, list[Look]]:
    """Every look of these operations, oldest first, without the raw answers."""
    cur.execute(_SELECT, (list(operation_ids),))
    found: dict[UUID, list[Look]] = {operation_id: [] for operation_id in operation_ids}
    for operation_id, _, *values in cur.fetchall():
        found[operation_id].append(_look(dict(zip(_READ, values, strict=True))))
    return found


def known_objects(cur: Any, account_id: UUID) -> dict[str, KnownObject]:
    """By kind, an object of ours that this account showed lately: the positive control."""
    cur.execute(_KNOWN, (account_id,))
    known: dict[str, KnownObject] = {}
    for (objects,) in cur.fetchall():
        for seen in map(sighting_of, _decoded(objects)):
            if seen.created_at is not None and seen.verified:
                known.setdefault(
                    seen.kind,
                    KnownObject(
                        kind=seen.kind,
                        id=seen.id,
                        created_at=seen.created_at,
                        marker=seen.marker or "",
                    ),
                )
    return known


def _row(operation_id: UUID, account_id: UUID | None, look: Look) -> tuple[Any, ...]:
    values: dict[str, Any] = {
        "operation_id": operation_id,
        "account_id": account_id,
        "outcome": look.outcome.value,
        "objects_seen": json.dumps([asdict(seen) for seen in look.sightings], default=_plain),
        "answer_sha256": sha256(look.answer).digest() if look.answer is not None else None,
    }
    return tuple(values[name] if name in values else getattr(look, name) for name in _COLUMNS)


def _look(values: dict[str, Any]) -> Look:
    objects = _decoded(values.pop("objects_seen"))
    return Look(
        **values | {"outcome": Outcome(values["outcome"])},
        sightings=tuple(map(sighting_of, objects)),
    )


def sighting_of(members: dict[str, Any]) -> Sighting:
    """A sighting as `asdict` and JSON made it."""
    created_at = members["created_at"]
    return Sighting(
        **members
        | {
            "stage": Stage(members["stage"]),
            "created_at": datetime.fromisoformat(created_at) if created_at else None,
        }
    )


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def _decoded(value: Any) -> list[dict[str, Any]]:
    decoded: list[dict[str, Any]] = json.loads(value) if isinstance(value, str | bytes) else value
    return decoded
