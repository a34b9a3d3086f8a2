"""Black-box fixtures: a running product, a catalogue, and runtimes that speak only HTTP."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.product import Product
from tests.support.runtime import Runtime

CATALOGUE = """
tools:
  - name: tests.search
    class: safe
  - name: tests.put
    class: idempotent
    key: {accepts: true, retention_hours: 24}
    attempts: {transient: 3}
    amount: {pointer: /amount, currency_pointer: /currency, unit: minor}
  - name: tests.mail
    class: unsafe
  - name: tests.gated
    class: unsafe
policies:
  - id: gated-in-test
    match: {environment: test, tool: tests.gated}
    tier: T2
    quorum: 1
    min_custody: A1
    expires_minutes: 30
"""


@pytest.fixture(scope="session")
def catalogue(live_product: Product, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogue that the contract tests run under, applied once."""
    path = tmp_path_factory.mktemp("catalogue") / "catalogue.yaml"
    path.write_text(CATALOGUE)
    live_product.manage("catalogue", "apply", str(path))
    return path


@pytest.fixture(scope="session")
def new_runtime(live_product: Product, catalogue: Path) -> Iterator[Callable[..., Runtime]]:
    opened: list[Runtime] = []

    def make(environment: str = "test", namespace: str = "default", **options: str) -> Runtime:
        key = live_product.create_api_key(environment=environment, namespace=namespace, **options)
        runtime = Runtime(live_product.base_url, key)
        opened.append(runtime)
        return runtime

    yield make
    for runtime in opened:
        runtime.http.close()


@pytest.fixture(scope="session")
def runtime(new_runtime: Callable[..., Runtime]) -> Runtime:
    return new_runtime()
