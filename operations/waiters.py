"""Who waits for which operation: the rows that make the guard trigger send a NOTIFY.

`pg_notify` in every commit would cost a third of the throughput, so it is sent only where a row
says that somebody waits. A waiter registers first and reads afterwards; a commit that did not see
the row yet is caught by the next re-read.
"""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from django.db import connection

CHANNEL: Final = "operation_changed"

_REGISTER = """
INSERT INTO operations_waiter (operation_id, process, expires_at)
SELECT id, %s, clock_timestamp() + %s * interval '1 second'
FROM unnest(%s::uuid[]) AS id
ORDER BY id
ON CONFLICT (operation_id, process) DO UPDATE SET expires_at = excluded.expires_at
"""
_VERSIONS = "SELECT id, version FROM operations_operation WHERE id = ANY(%s::uuid[])"
_FORGET = "DELETE FROM operations_waiter WHERE process = %s AND operation_id = ANY(%s::uuid[])"
_FORGET_EXPIRED = "DELETE FROM operations_waiter WHERE expires_at < clock_timestamp()"


def register(operations: Collection[UUID], *, process: str, seconds: float) -> dict[UUID, int]:
    """Register a process for operations, then read their versions in a statement of its own."""
    with connection.cursor() as cur:
        cur.execute(_REGISTER, [process, seconds, list(operations)])
    return versions(operations)


def versions(operations: Collection[UUID]) -> dict[UUID, int]:
    """The current version of each operation that exists."""
    with connection.cursor() as cur:
        cur.execute(_VERSIONS, [list(operations)])
        return dict(cur.fetchall())


def forget(operations: Collection[UUID], *, process: str) -> None:
    """Nobody in this process waits for these any more."""
    with connection.cursor() as cur:
        cur.execute(_FORGET, [process, list(operations)])


def forget_expired() -> int:
    """Drop what processes that died have left; returns how many rows."""
    with connection.cursor() as cur:
        cur.execute(_FORGET_EXPIRED)
        return int(cur.rowcount)
