"""Which operations a list shows, by keyset: one index scan for each scope and state, merged.

A filter that has an index of its own stops as soon as the page is full. Any other is tried on a
bounded window of the order, and the page's cursor then stands where the window ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.backends.utils import CursorWrapper

from operations import states
from operations.actors import Scope
from operations.errors import DomainError
from operations.ids import handle, parse_handle

#: Rows of one order that a page may look through for a filter without an index of its own.
WINDOW: Final = 2_000
NEWEST: Final = UUID(int=(1 << 128) - 1)
_UNCOMMITTED: Final = (states.UNKNOWN, states.INVOKED, states.PENDING, states.FAILED)


@dataclass(frozen=True, slots=True)
class OperationQuery:
    """Which operations: the same object for a list and for its badge. No scope: all of them."""

    scope: Scope | None = None
    state: str | None = None
    tool: str | None = None
    run: str | None = None
    waiting_on: str | None = None
    gate: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Ids newest first; `last` is where the next page begins, None where there is none."""

    ids: list[UUID]
    last: UUID | None


@dataclass(frozen=True, slots=True)
class _Branch:
    """One index scan in the wanted order, and what is left to check on each of its rows.

    Names and conditions are this module's own; every value from outside is a parameter.
    """

    table: str
    column: str
    condition: str
    params: tuple[Any, ...]
    rest: tuple[tuple[str, str], ...]

    def matching(self, before: UUID, window: int, limit: int) -> tuple[str, list[Any]]:
        if not self.rest:
            return self._scan(self.column, before, limit)
        columns = ", ".join(name for name, _ in self.rest)
        scan, params = self._scan(f"{self.column} AS id, {columns}", before, window)
        checks = " AND ".join(f"{name} = %s" for name, _ in self.rest)
        sql = f"(SELECT id FROM {scan} seen WHERE {checks} ORDER BY id DESC LIMIT %s)"  # noqa: S608
        return sql, [*params, *(value for _, value in self.rest), limit]

    def end(self, before: UUID, window: int) -> tuple[str, list[Any]]:
        scan, params = self._scan(f"{self.column} AS id", before, window)
        sql = f"(SELECT (array_agg(id ORDER BY id))[1], count(*) FROM {scan} seen)"  # noqa: S608
        return sql, params

    def _scan(self, columns: str, before: UUID, limit: int) -> tuple[str, list[Any]]:
        sql = (
            f"(SELECT {columns} FROM {self.table} WHERE {self.condition}"  # noqa: S608
            f" AND {self.column} < %s ORDER BY {self.column} DESC LIMIT %s)"
        )
        return sql, [*self.params, before, limit]


def page(cur: CursorWrapper, query: OperationQuery, before: UUID, limit: int) -> Page:
    """The next `limit` operations older than `before`."""
    branches = _branches(cur, query)
    ids = _matching(cur, branches, before, WINDOW, limit + 1)
    windowed = [branch for branch in branches if branch.rest]
    if windowed and (len(ids) <= limit or len(branches) > 1):
        end = _latest_end(cur, windowed, before, WINDOW)
        ids = [found for found in ids if end is None or found >= end]
        if len(ids) <= limit:
            return Page(ids, end)
    return Page(ids[:limit], ids[limit - 1] if len(ids) > limit else None)


def capped_count(cur: CursorWrapper, query: OperationQuery, cap: int) -> tuple[int, bool]:
    """`(count, whether there are or may be more)`; looks at no more rows than the cap demands."""
    branches = _branches(cur, query)
    window = max(10 * WINDOW, cap + 1)
    found = len(_matching(cur, branches, NEWEST, window, cap + 1))
    windowed = [branch for branch in branches if branch.rest]
    unseen = bool(windowed) and _latest_end(cur, windowed, NEWEST, window) is not None
    return min(found, cap), found > cap or unseen


def read_cursor(cursor: str | None) -> UUID:
    """Where a page begins; VALIDATION_ERROR for what was never a cursor."""
    if cursor is None:
        return NEWEST
    found = parse_handle("cur", cursor)
    if found is None:
        raise DomainError("VALIDATION_ERROR", "This is no cursor of ours.", pointer="?cursor")
    return found


def write_cursor(last: UUID | None) -> str | None:
    """The opaque text of a page's end."""
    return handle("cur", last) if last else None


def scopes_of(cur: CursorWrapper, scope: Scope | None) -> list[Scope]:
    """The scope asked for, or every one that an API key was ever made for."""
    if scope is not None:
        return [scope]
    cur.execute("SELECT DISTINCT environment, namespace FROM operations_apikey ORDER BY 1, 2")
    return [Scope(*row) for row in cur.fetchall()]


def _matching(
    cur: CursorWrapper, branches: Sequence[_Branch], before: UUID, window: int, limit: int
) -> list[UUID]:
    if not branches:
        return []
    parts = [branch.matching(before, window, limit) for branch in branches]
    sql = " UNION ALL ".join(part[0] for part in parts) + " ORDER BY 1 DESC LIMIT %s"
    cur.execute(sql, [value for part in parts for value in part[1]] + [limit])
    return [row[0] for row in cur.fetchall()]


def _latest_end(
    cur: CursorWrapper, branches: Sequence[_Branch], before: UUID, window: int
) -> UUID | None:
    """Where the first of the windows ended that did not reach the end of its order."""
    parts = [branch.end(before, window) for branch in branches]
    sql = " UNION ALL ".join(part[0] for part in parts)
    cur.execute(sql, [value for part in parts for value in part[1]])
    return max((row[0] for row in cur.fetchall() if row[1] == window), default=None)


def _branches(cur: CursorWrapper, query: OperationQuery) -> list[_Branch]:
    checks = {
        "state": query.state,
        "tool": query.tool,
        "waiting_on": query.waiting_on,
        "gate": query.gate,
    }
    rest = {name: value for name, value in checks.items() if value is not None}
    if query.run is not None:
        return _branches_of_run(cur, query, rest)
    scopes = scopes_of(cur, query.scope)
    in_scope = "environment = %s AND namespace = %s"
    if _is_open_only(query):
        wanted = [rest.pop("state")] if query.state else list(_UNCOMMITTED)
        left = tuple(rest.items())
        return [
            _Branch("operations_standing", "operation_id", f"{in_scope} AND state = %s",
                    (*scope, state), left)
            for scope in scopes
            for state in wanted
        ]  # fmt: skip
    condition: str = in_scope
    indexed: tuple[str, ...] = ()
    if query.tool is not None:
        condition, indexed = f"{in_scope} AND tool = %s", (rest.pop("tool"),)
    left = tuple(rest.items())
    return [
        _Branch("operations_operation", "id", condition, (*scope, *indexed), left)
        for scope in scopes
    ]


def _branches_of_run(
    cur: CursorWrapper, query: OperationQuery, rest: dict[str, str]
) -> list[_Branch]:
    cur.execute(
        "SELECT id FROM operations_run WHERE run_id = %s AND (environment, namespace) IN "
        "(SELECT * FROM unnest(%s::text[], %s::text[]))",
        [query.run, *map(list, zip(*scopes_of(cur, query.scope), strict=True))],
    )
    runs = [row[0] for row in cur.fetchall()]
    left = tuple(rest.items())
    return [_Branch("operations_operation", "id", "run_id = %s", (run,), left) for run in runs]


def _is_open_only(query: OperationQuery) -> bool:
    """Whether the narrow table of what is not COMMITTED holds every answer."""
    if query.state is not None:
        return query.state != states.COMMITTED
    return query.waiting_on is not None or query.gate in ("waiting", "refused")
