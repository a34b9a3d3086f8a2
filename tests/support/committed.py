"""A database whose commits are real, for tests with threads and processes; emptied afterwards."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections

from operations.ledger import keeping, soundness

#: Rows that migrations put there.
_KEPT = ("operations_sequencerstate", "approvals_grantepoch")


def empty() -> None:
    """Empty every table of the product. The guards allow it to a superuser's replica role only."""
    with connection.cursor() as cur:
        cur.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            " AND tablename ~ '^(operations|approvals|reconcilers)_'"
            " AND NOT tablename = ANY(%s)",
            (list(_KEPT),),
        )
        tables = [row[0] for row in cur.fetchall()]
        cur.execute("SET session_replication_role = replica")
        try:
            # A few rows each: TRUNCATE would take a new file for every table and index.
            cur.execute("; ".join(f"DELETE FROM {table}" for table in tables))
            cur.execute("UPDATE operations_sequencerstate SET last_seq = 0, snapshot = ''")
            cur.execute("UPDATE approvals_grantepoch SET epoch = 1, cluster = ''")
        finally:
            cur.execute("SET session_replication_role = DEFAULT")
    # A log that is gone must not be compared with what was kept of it.
    keeping.path().unlink(missing_ok=True)
    soundness.forget()


@pytest.fixture
def _django_db_helper(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """In a module that imports it, and marks its tests `django_db`: no transaction around them.

    pytest-django's own transactional tests end with TRUNCATE, which the guards refuse.
    """
    with django_db_blocker.unblock():
        empty()
        try:
            yield
        finally:
            empty()
            connections.close_all()
