"""A simulated provider and a namespace in doubt, for tests of what the reconciler concludes."""

from collections.abc import Iterator

import pytest
from django.db import connection

from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.reconciling import (
    CHARGE,
    IDEMPOTENT,
    World,
    look_now,
    publish,
)
from tests.support.simulated_provider import SimulatedProvider

#: Behind the settle point of CHARGE: lease or permit 10 s + timeout 1 s + request lifetime 900 s.
PAST_SETTLING = 1000


@pytest.fixture(scope="module", name="simulator")
def a_simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture(name="world")
def a_world(simulator: SimulatedProvider) -> Iterator[World]:
    publish(
        charge=CHARGE,
        idempotent=IDEMPOTENT,
        searched=CHARGE | {"lookups": ["search"], "amount_pointer": ""},
        crm__read={"tool_class": "safe"},
        mail__send={"tool_class": "unsafe", "provider": "mail"},
        unmarked=CHARGE | {"marker": False},
    )
    here = World(simulator)
    here.account()
    yield here
    simulator.clear_faults()
    simulator.settings(search_lag_seconds=0, search_flap=0)


def two_reads(call):
    """Two looks that are far enough apart to agree, without the wait between them."""
    look_now(call)
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE reconcilers_finding SET started_at = started_at - interval '6 seconds',"
            " ended_at = ended_at - interval '6 seconds' WHERE operation_id = %s",
            (call.id,),
        )
    look_now(call)
