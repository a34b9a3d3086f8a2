"""Keyset pages and capped counts over time-ordered ids, newest first. Never an OFFSET.

A list is one index scan for each scope and state, merged. A filter that its index covers stops
as soon as the page is full; any other is tried on a bounded window of the order, and the page's
cursor then stands where the window ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from operations.actors import Scope
from operations.errors import DomainError
from operations.ids import handle, parse_handle

#: Rows of one order that a page may look through for a filter that its index does not cover.
WINDOW: Final = 2_000
NEWEST: Final = UUID(int=(1 << 128) - 1)


#: SQL of a condition, and the values that it binds.
type Check = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Branch:
    """One index scan in the wanted order, and what is left to check on each of its rows.

    `condition` and `checks` are SQL of the caller's own; every value from outside is in `params`
    or beside its check.
    """

    table: str
    condition: str
    params: tuple[Any, ...]
    checks: tuple[Check, ...] = ()
    column: str = "id"
    window: int = WINDOW

    def matching(self, before: UUID, limit: int) -> tuple[str, list[Any]]:
        """The newest `limit` ids that match, looking no further than the window."""
        if not self.checks:
            return self._scan(self.column, before, limit)
        scan, params = self._scan("*", before, self.window)
        checks = " AND ".join(check for check, _ in self.checks)
        sql = (
            f"(SELECT {self.column} FROM {scan} seen WHERE {checks}"  # noqa: S608
            f" ORDER BY {self.column} DESC LIMIT %s)"
        )
        return sql, [*params, *(value for _, values in self.checks for value in values), limit]

    def end(self, before: UUID) -> tuple[str, list[Any]]:
        """The oldest id of the window, and whether the window is full."""
        scan, params = self._scan(f"{self.column} AS id", before, self.window)
        sql = f"(SELECT (array_agg(id ORDER BY id))[1], count(*) = %s FROM {scan} seen)"  # noqa: S608
        return sql, [self.window, *params]

    def _scan(self, columns: str, before: UUID, limit: int) -> tuple[str, list[Any]]:
        sql = (
            f"(SELECT {columns} FROM {self.table} WHERE {self.condition}"  # noqa: S608
            f" AND {self.column} < %s ORDER BY {self.column} DESC LIMIT %s)"
        )
        return sql, [*self.params, before, limit]


@dataclass(frozen=True, slots=True)
class Page:
    """Ids newest first; `last` is where the next page begins, None where there is none."""

    ids: list[UUID]
    last: UUID | None


def page(cur: Any, branches: Sequence[Branch], before: UUID, limit: int) -> Page:
    """The next `limit` ids older than `before`."""
    ids = _matching(cur, branches, before, limit + 1)
    if any(branch.checks for branch in branches) and (len(ids) <= limit or len(branches) > 1):
        end = _latest_end(cur, branches, before)
        ids = [found for found in ids if end is None or found >= end]
        if len(ids) <= limit:
            return Page(ids, end)
    return Page(ids[:limit], ids[limit - 1] if len(ids) > limit else None)


def capped_count(cur: Any, branches: Sequence[Branch], cap: int) -> tuple[int, bool]:
    """`(count, whether there are or may be more)`; looks at no more rows than the cap demands."""
    wide = [replace(branch, window=max(10 * branch.window, cap + 1)) for branch in branches]
    found = len(_matching(cur, wide, NEWEST, cap + 1))
    if found > cap:
        return cap, True
    return found, _latest_end(cur, wide, NEWEST) is not None


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


def scopes_of(cur: Any, scope: Scope | None) -> list[Scope]:
    """The scope asked for, or every one that an API key was ever made for."""
    if scope is not None:
        return [scope]
    cur.execute("SELECT DISTINCT environment, namespace FROM operations_apikey ORDER BY 1, 2")
    return [Scope(*row) for row in cur.fetchall()]


def _matching(cur: Any, branches: Sequence[Branch], before: UUID, limit: int) -> list[UUID]:
    if not branches:
        return []
    parts = [branch.matching(before, limit) for branch in branches]
    found = " UNION ALL ".join(part[0] for part in parts)
    sql = f"SELECT * FROM ({found}) AS found ORDER BY 1 DESC LIMIT %s"  # noqa: S608
    cur.execute(sql, [value for part in parts for value in part[1]] + [limit])
    return [row[0] for row in cur.fetchall()]


def _latest_end(cur: Any, branches: Sequence[Branch], before: UUID) -> UUID | None:
    """Where the first of the windows ended that did not reach the end of its order."""
    windowed = [branch for branch in branches if branch.checks]
    if not windowed:
        return None
    parts = [branch.end(before) for branch in windowed]
    sql = " UNION ALL ".join(part[0] for part in parts)
    cur.execute(sql, [value for part in parts for value in part[1]])
    return max((row[0] for row in cur.fetchall() if row[1]), default=None)
