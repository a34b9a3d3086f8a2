"""SQL: a read-only query on the customer's own Postgres, and a tombstone where it is wanted."""

from reconcilers.providers.sql.provider import SqlProvider

provider = SqlProvider()

__all__ = ["provider"]
