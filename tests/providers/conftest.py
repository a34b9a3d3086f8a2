"""What stands in for a provider: one for each file of tests, mended after each test."""

from collections.abc import Iterator

import pytest

from tests.providers.sql_bench import SqlBench
from tests.support.simulated_provider import SimulatedProvider
from tests.support.sql_cluster import SqlCluster


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def provider(running: SimulatedProvider) -> Iterator[SimulatedProvider]:
    yield running
    running.clear_faults()
    running.settings(
        search_lag_seconds=0,
        search_flap=0,
        key_retention_seconds=86400,
        mail_honours_keys=False,
        stripe_honours_keys=True,
    )


@pytest.fixture(scope="module")
def customers_shop() -> Iterator[SqlBench]:
    """A Postgres cluster of its own, as a customer has it."""
    cluster = SqlCluster().start()
    bench = SqlBench(cluster)
    yield bench
    bench.close()
    cluster.remove()


@pytest.fixture
def shop(customers_shop: SqlBench) -> Iterator[SqlBench]:
    yield customers_shop
    customers_shop.mend()
