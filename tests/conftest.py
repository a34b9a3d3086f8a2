"""Fixtures for all tests. Postgres and Valkey come from the plugin ``tests.support.services``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.product import Product


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a product or a browser run in one worker, so that each is started once."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "live_product" in names:
            item.add_marker(pytest.mark.xdist_group("live_product"))
        elif "own_product" in names:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))
            item.add_marker(pytest.mark.crash)
        if "chromium" in names:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def live_product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The whole product, empty (DEMO=0), shared by the worker's tests: do not kill its parts."""
    yield from _running(tmp_path_factory.mktemp("live") / "data")


@pytest.fixture(scope="module")
def own_product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The whole product, empty, for one module that kills and restarts its parts."""
    yield from _running(tmp_path_factory.mktemp("own") / "data")


def _running(data_dir: Path) -> Iterator[Product]:
    product = Product(data_dir)
    product.start()
    try:
        yield product
    finally:
        product.stop()
