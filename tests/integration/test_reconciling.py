"""From doubt to certainty, on the real services and the simulated provider."""

from collections.abc import Iterator

import pytest

from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.reconciling import CHARGE, IDEMPOTENT, World, look_now, publish
from tests.support.simulated_provider import SimulatedProvider

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def world(simulator: SimulatedProvider) -> Iterator[World]:
    publish(charge=CHARGE, idempotent=IDEMPOTENT)
    here = World(simulator)
    here.account()
    yield here
    simulator.clear_faults()
    simulator.settings(search_lag_seconds=0, search_flap=0)


def test_an_effect_that_exists_is_found_and_committed(world):
    call = world.doubtful(effect=True)
    look_now(call)
    operation = call.operation
    assert operation.state == "COMMITTED"
    assert operation.provider_ref.startswith("pi_")
    assert operation.effect_status == "succeeded"
    assert operation.verdict["kind"] == "committed"
    (finding,) = call.findings
    assert (finding.lookup, finding.lookup_class, finding.outcome) == ("list", "B", "hit")
    assert finding.answer_sha256
    assert finding.request_id.startswith("req_")
    assert call.due is None
    assert call.incidents == []
