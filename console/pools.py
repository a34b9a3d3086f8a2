"""Connection pools end with their process: one that is only collected may cost 20 seconds.

The interpreter freezes other threads before it collects what is left; a pool's finaliser then
waits five seconds for each of its four, in vain.
"""

import atexit

from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg_pool import ConnectionPool


def close_at_exit() -> None:
    """Close every pool before the threads are frozen. Called once, when the apps are ready."""
    atexit.register(_close)


def _close() -> None:
    # Django keeps them on the class, one for each alias; the stubs do not know of them.
    pools: dict[str, ConnectionPool] = DatabaseWrapper._connection_pools  # type: ignore[attr-defined]
    while pools:
        _, pool = pools.popitem()
        pool.close()
