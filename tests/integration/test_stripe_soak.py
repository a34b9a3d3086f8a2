"""Hundreds of seeded operations with every fault on, against the provider's own book."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from reconcilers import inbox
from reconcilers.models import ProviderEvent
from tests.integration.test_hooks import Hooked
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.front_door import FrontDoor
from tests.support.reconciling import look_now, publish
from tests.support.simulated_provider import SimulatedProvider
from tests.support.soaking import READ_FAULTS, TOOLS, Soak, judge

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

#: More of them by hand: SOAK_OPERATIONS=3000 SOAK_SEED=7.
OPERATIONS = int(os.environ.get("SOAK_OPERATIONS", "80"))
SEED = int(os.environ.get("SOAK_SEED", "1"))


@pytest.fixture
def simulator(tmp_path: Any) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path).start()
    yield provider
    provider.stop()


@pytest.fixture
def door() -> Iterator[FrontDoor]:
    door = FrontDoor()
    yield door
    door.close()


def test_no_effect_is_doubled_lost_or_misjudged(simulator: SimulatedProvider, door: FrontDoor):
    publish(**{name: facts for name, (facts, _) in TOOLS.items()})
    worlds = [Hooked(simulator).hook(door) for _ in range(2)]
    simulator.settings(webhooks=[world.target for world in worlds], search_flap=0.3)
    soak = Soak(worlds, seed=SEED)
    began = time.monotonic()
    soak.begin(OPERATIONS)
    for action, every in READ_FAULTS:
        simulator.fault(action, method="GET", nth=list(range(every, 4000, every)))
    simulator.fault({"page_size": 5}, method="GET")
    calls = [case.call for case in soak.cases]
    look_now(*calls, seconds=20)
    early = [case for case in soak.cases if case.call.operation.state in {"PENDING", "FAILED"}]
    assert not [case for case in early if case.call.operation.release_reason != "replay"]
    time.sleep(max(0.0, 5.0 - (time.monotonic() - began)))  # What is late by seconds is there now.
    soak.let_settle_points_pass()
    for _ in range(3):
        look_now(*calls, seconds=20)
        soak.let_reads_be_older()
    redone = soak.again()
    simulator.clear_faults()
    released_too_early = [c for c in soak.cases if c.story == "committed after the settle point"]
    deadline = time.monotonic() + 50
    while any(not book(simulator)[case.call.key] for case in released_too_early):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    for _ in range(4):
        time.sleep(0.7)
        look_now(*calls, seconds=20)
    inbox.run_once()
    effects = book(simulator)
    wrong = {
        f"{case.tool}: {case.story}: {case.seen}": found
        for case in soak.cases
        if (found := judge(case, effects[case.call.key]))
    }
    states = Counter(case.call.operation.state for case in soak.cases)
    standings = Counter(ProviderEvent.objects.values_list("standing", flat=True))
    print(f"{states=} {standings=} {redone=} {sum(map(len, effects.values()))} effects")
    assert wrong == {}
    assert not any(
        set(case.call.incidents) - {"late_effect", "possible_duplicate"} for case in soak.cases
    )
    assert standings["received"] == 0
    assert states["COMMITTED"] > OPERATIONS / 3
    for world in worlds:
        assert set(world.refusals()) <= {"no_match", "stale"}


def book(simulator: SimulatedProvider) -> dict[str, list[dict[str, Any]]]:
    """Effects by our key; a refund or charge that a payment brings is no second one."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for effect in simulator.ledger()["effects"]:
        found[effect["idem_key"]].append(effect)
    return found
