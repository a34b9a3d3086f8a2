"""The simulated provider, one for each file of tests, its levers back in place after each test."""

from collections.abc import Iterator

import pytest

from tests.support.simulated_provider import SimulatedProvider


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
