"""Reading operations: one by key, lists by keyset, counts with a cap. Never an OFFSET."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.backends.utils import CursorWrapper

from operations import paging
from operations.actors import Scope
from operations.documents import Beside, decision_of, incident_document, operation_document
from operations.errors import not_found
from operations.paging import OperationQuery

__all__ = [
    "OperationQuery",
    "OperationRow",
    "capped_count",
    "decision_of",
    "documents_of",
    "list_operations",
    "operation_document",
    "read_operation",
]


@dataclass(frozen=True, slots=True)
class OperationRow:
    """The columns of an operation that its document shows."""

    id: UUID
    environment: str
    namespace: str
    idem_key: str
    step: int
    tool_call_id: str
    position: int | None
    id_missing: bool
    tool: str
    tool_class: str
    catalogue_version: int
    args_fingerprint: str | None
    goal: str | None
    amount_minor: int | None
    currency: str | None
    executor: str
    mode: str
    state: str
    version: int
    failure: str | None
    closed: bool
    waiting_on: str | None
    waiting_until: datetime | None
    gate: str
    gate_ref: str | None
    gate_expires_at: datetime | None
    attempt_number: int
    attempts: int
    provider_ref: str | None
    effect_status: str | None
    verdict: Any
    flags: Any
    key_expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


_COLUMNS: Final = tuple(OperationRow.__dataclass_fields__)
_SELECT: Final = f"""
SELECT {", ".join(f"o.{name}" for name in _COLUMNS)},
       r.run_id, r.status, newer.idem_key, original.idem_key,
       result.body, result.erased_at IS NOT NULL, incidents.items,
       coalesce(tries.doubt, false), coalesce(tries.sent, false)
FROM operations_operation o
JOIN operations_run r ON r.id = o.run_id
LEFT JOIN operations_operation newer ON newer.id = o.superseded_by_id
LEFT JOIN operations_operation original ON original.id = o.compensates_id
LEFT JOIN LATERAL (
    SELECT p.body, p.erased_at FROM operations_payload p
    WHERE p.operation_id = o.id AND p.kind = 'result' ORDER BY p.id LIMIT 1
) result ON o.state = 'COMMITTED'
LEFT JOIN LATERAL (
    SELECT array_agg(ARRAY[i.id::text, i.kind, i.opened_at::text] ORDER BY i.id) AS items
    FROM operations_incident i WHERE i.operation_id = o.id
) incidents ON true
LEFT JOIN LATERAL (
    SELECT bool_or(a.standing = 'in_doubt') AS doubt,
           bool_or(a.standing = 'live' AND (a.permit_at IS NOT NULL OR NOT a.fenced)) AS sent
    FROM operations_attempt a WHERE a.operation_id = o.id
) tries ON o.state IN ('PENDING', 'INVOKED')
"""  # noqa: S608


def read_operation(scope: Scope, idem_key: str) -> dict[str, Any]:
    """The document of one operation; NOT_FOUND also for what belongs to another scope."""
    with connection.cursor() as cur:
        where = "o.environment = %s AND o.namespace = %s AND o.idem_key = %s"
        found = _documents(cur, where, [*scope, idem_key])
    if not found:
        raise not_found()
    return found[0]


def documents_of(cur: CursorWrapper, ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """The documents of operations by id, newest first."""
    return _documents(cur, "o.id = ANY(%s::uuid[]) ORDER BY o.id DESC", [list(ids)])


def list_operations(
    query: OperationQuery, cursor: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """`(documents newest first, next cursor or None)`.

    Under a rare combination of filters a page may hold fewer than `limit` and still have a
    successor: the cursor, not the number of items, says whether there is more.
    """
    before = paging.read_cursor(cursor)
    with connection.cursor() as cur:
        page = paging.page(cur, query, before, limit)
        items = documents_of(cur, page.ids) if page.ids else []
    return items, paging.write_cursor(page.last)


def capped_count(query: OperationQuery, cap: int = 1000) -> tuple[int, bool]:
    """`(count, whether there are more)`, never counting beyond `cap`."""
    with connection.cursor() as cur:
        return paging.capped_count(cur, query, cap)


def _documents(cur: CursorWrapper, where: str, params: Sequence[Any]) -> list[dict[str, Any]]:
    cur.execute(f"{_SELECT} WHERE {where}", params)
    return [operation_document(*_read_row(row)) for row in cur.fetchall()]


def _read_row(row: Sequence[Any]) -> tuple[OperationRow, Beside]:
    width = len(_COLUMNS)
    op = OperationRow(*row[:width])
    op = replace(op, verdict=_json(op.verdict), flags=_json(op.flags) or [])
    run_id, run_status, newer, original, result, erased, items, doubt, sent = row[width:]
    return op, Beside(
        run_id=run_id,
        run_status=run_status,
        result=bytes(result) if result is not None else None,
        result_erased=erased,
        incidents=_incidents(items or ()),
        superseded_by=newer,
        compensates=original,
        has_doubt=doubt,
        may_have_sent=sent,
    )


def _incidents(items: Iterable[Sequence[str]]) -> list[dict[str, Any]]:
    return [
        incident_document(UUID(item), kind, datetime.fromisoformat(at)) for item, kind, at in items
    ]


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
