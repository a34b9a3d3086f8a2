"""Reading operations: one by key, lists by keyset, counts with a cap. Never an OFFSET.

Statements are prepared (`rows.hot_cursor`): planning a document's joins takes longer than running
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from operations import paging, rows, states
from operations.actors import Scope
from operations.documents import (
    WITHDRAWN,
    Beside,
    decision_of,
    incident_document,
    operation_document,
)
from operations.errors import not_found
from operations.paging import Branch

__all__ = [
    "OperationQuery",
    "capped_count",
    "decision_of",
    "documents_of",
    "list_operations",
    "operation_document",
    "read_operation",
]


_UNCOMMITTED: Final = (states.UNKNOWN, states.INVOKED, states.PENDING, states.FAILED)
_IN_SCOPE: Final = "environment = %s AND namespace = %s"
#: Rare values, each with an index of the open table that leaves the frequent ones out.
_FEW: Final = {"waiting_on": states.WAITING_ON_OTHERS, "gate": states.SHUT_GATES}
_SELECT: Final = f"""
SELECT {rows.COLUMNS},
       r.status, newer.idem_key, original.idem_key,
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
    FROM operations_incident i
    WHERE i.operation_id = o.id AND i.resolved_by IS DISTINCT FROM '{WITHDRAWN}'
) incidents ON true
LEFT JOIN LATERAL (
    SELECT bool_or(a.standing = 'in_doubt') AS doubt,
           bool_or(a.standing = 'live' AND (a.permit_at IS NOT NULL OR NOT a.fenced)) AS sent
    FROM operations_attempt a WHERE a.operation_id = o.id
) tries ON o.state IN ('PENDING', 'INVOKED')
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class OperationQuery:
    """Which operations: the same object for a list and for its badge. No scope: all of them."""

    scope: Scope | None = None
    state: str | None = None
    tool: str | None = None
    run: str | None = None
    waiting_on: str | None = None
    gate: str | None = None

    @property
    def is_open_only(self) -> bool:
        """Whether the narrow table of what is not COMMITTED holds every answer."""
        if self.state is not None:
            return self.state != states.COMMITTED
        return self.waiting_on is not None or self.gate in states.SHUT_GATES


def read_operation(scope: Scope, idem_key: str) -> dict[str, Any]:
    """The document of one operation; NOT_FOUND also for what belongs to another scope."""
    with rows.hot_cursor() as cur:
        where = "o.environment = %s AND o.namespace = %s AND o.idem_key = %s"
        found = _documents(cur, where, [*scope, idem_key])
    if not found:
        raise not_found()
    return found[0]


def documents_of(cur: Any, ids: Sequence[UUID]) -> list[dict[str, Any]]:
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
    with rows.hot_cursor() as cur:
        page = paging.page(cur, _branches(cur, query), before, limit)
        items = documents_of(cur, page.ids) if page.ids else []
    return items, paging.write_cursor(page.last)


def capped_count(query: OperationQuery, cap: int = 1000) -> tuple[int, bool]:
    """`(count, whether there are more)`, never counting beyond `cap`."""
    with rows.hot_cursor() as cur:
        return paging.capped_count(cur, _branches(cur, query), cap)


def _branches(cur: Any, query: OperationQuery) -> list[Branch]:
    wanted = {
        "state": query.state,
        "tool": query.tool,
        "waiting_on": query.waiting_on,
        "gate": query.gate,
    }
    left = {name: value for name, value in wanted.items() if value is not None}
    scopes = paging.scopes_of(cur, query.scope)
    if query.run is not None:
        runs = _runs_named(cur, query.run, scopes)
        return [_branch("run_id = %s", (run,), left) for run in runs]
    if query.is_open_only:
        each = [left.pop("state")] if query.state else _UNCOMMITTED
        return [_open_branch(scope, state, left) for scope in scopes for state in each]
    if query.tool is not None:
        condition, indexed = f"{_IN_SCOPE} AND tool = %s", (left.pop("tool"),)
        return [_branch(condition, (*scope, *indexed), left) for scope in scopes]
    return [_branch(_IN_SCOPE, scope, left) for scope in scopes]


def _branch(condition: str, params: tuple[Any, ...], left: Mapping[str, str]) -> Branch:
    return Branch("operations_operation", condition, params, _checks(left))


def _open_branch(scope: Scope, state: str, left: Mapping[str, str]) -> Branch:
    left = dict(left)
    condition = f"{_IN_SCOPE} AND state = %s"
    params: tuple[str, ...] = (*scope, state)
    for column, few in _FEW.items():
        if left.get(column) in few:
            # The index's own predicate stands in the text, so that the index is seen to fit.
            condition += f" AND {column} IN {few} AND {column} = %s"
            params = (*params, left.pop(column))
            break
    return Branch("operations_standing", condition, params, _checks(left), "operation_id")


def _checks(left: Mapping[str, str]) -> tuple[tuple[str, tuple[str]], ...]:
    return tuple((f"{name} = %s", (value,)) for name, value in left.items())


def _runs_named(cur: Any, run_id: str, scopes: Sequence[Scope]) -> list[UUID]:
    cur.execute(
        "SELECT id FROM operations_run WHERE run_id = %s AND (environment, namespace) IN "
        "(SELECT * FROM unnest(%s::text[], %s::text[]))",
        [run_id, [scope.environment for scope in scopes], [scope.namespace for scope in scopes]],
    )
    return [row[0] for row in cur.fetchall()]


def _documents(cur: Any, where: str, params: Sequence[Any]) -> list[dict[str, Any]]:
    cur.execute(f"{_SELECT} WHERE {where}", params)
    return [_document(row) for row in cur.fetchall()]


def _document(row: tuple[Any, ...]) -> dict[str, Any]:
    status, newer, original, result, erased, incidents, doubt, sent = row[rows.WIDTH :]
    beside = Beside(
        run_status=status,
        result=bytes(result) if result is not None else None,
        result_erased=erased,
        incidents=_incidents(incidents or ()),
        superseded_by=newer,
        compensates=original,
        has_doubt=doubt,
        may_have_sent=sent,
    )
    return operation_document(rows.from_tuple(row), beside)


def _incidents(items: Iterable[Sequence[str]]) -> list[dict[str, Any]]:
    return [
        incident_document(UUID(item), kind, datetime.fromisoformat(at)) for item, kind, at in items
    ]
