"""What the modules about one provider share."""

from collections.abc import Iterator

import pytest

from tests.providers.sql_bench import SqlBench
from tests.support.sql_cluster import SqlCluster


@pytest.fixture(scope="module")
def customers_shop() -> Iterator[SqlBench]:
    """A Postgres cluster of its own for one module."""
    cluster = SqlCluster().start()
    bench = SqlBench(cluster)
    yield bench
    bench.close()
    cluster.remove()


@pytest.fixture
def shop(customers_shop: SqlBench) -> Iterator[SqlBench]:
    """The same, mended after each test."""
    yield customers_shop
    customers_shop.mend()
