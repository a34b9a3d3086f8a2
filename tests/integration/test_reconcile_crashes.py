"""Real workers, killed; a real Postgres and a real Redis, restarted. Nothing is lost or doubled."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine_room import MachineRoom

pytestmark = [
    pytest.mark.crash,
    pytest.mark.slow,
    pytest.mark.xdist_group("machine_room"),
]

_POISON = '''
"""A look-up that takes its worker down with it."""

import os
import signal

from reconcilers.evidence import Look, Outcome, Way
from reconcilers.providers.base import Answer, Identity, Provider, Session


class PoisonSession(Session):
    def __init__(self, gate):
        self.gate = gate

    async def identify(self):
        return Identity(account_id="acct_poison", mode="test")

    async def ask(self, questions, known, deliver):
        for question in questions:
            path = os.path.join(os.environ["MORE_PROVIDERS"], question.marker)
            if os.path.exists(path):
                os.kill(os.getpid(), signal.SIGKILL)
            now = self.gate.now()
            look = Look(
                lookup="get", lookup_class="A", outcome=Outcome.EMPTY, started_at=now, ended_at=now
            )
            await deliver(Answer(operation_id=question.operation_id, looks=(look,)))

    async def close(self):
        return


class Poison(Provider):
    kind = "poison"
    title = "Poison"

    def ways(self, object_kind):
        return (Way(name="get", lookup_class="A", words="Poison's answer", exhaustive=True),)

    def open(self, access, gate):
        return PoisonSession(gate)


provider = Poison()
'''


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineRoom]:
    folder = tmp_path_factory.mktemp("room")
    more = folder / "providers"
    (more / "poison").mkdir(parents=True)
    (more / "poison" / "__init__.py").write_text(_POISON)
    room = MachineRoom(folder)
    room.more_providers = str(more)
    room.start()
    room.start_worker()
    room.start_beat()
    yield room
    room.stop()


@pytest.fixture(autouse=True)
def mended(room: MachineRoom) -> Iterator[None]:
    yield
    room.simulator.clear_faults()


def settled(room: MachineRoom, keys: list[str]) -> bool:
    return set(room.states(keys)) == {"COMMITTED"}


def lapse(room: MachineRoom) -> None:
    """Let the leases of the dead run out now."""
    room.sql(
        "UPDATE reconcilers_duelook SET leased_until = clock_timestamp() - interval '1 second'"
        " WHERE leased_until IS NOT NULL"
    )
    room.sql("UPDATE reconcilers_engineseat SET held_until = clock_timestamp() - interval '1 s'")


def test_an_effect_is_found_within_seconds_of_the_doubt(room):
    keys = room.doubts("quick", 3, effect=True)
    began = time.monotonic()
    room.until(lambda: settled(room, keys), "the effects are found", seconds=30)
    assert time.monotonic() - began < 20


def test_a_worker_killed_in_the_middle_of_a_look_loses_nothing(room):
    room.simulator.fault({"latency_ms": 1700}, method="GET", path="/v1/payment_intents")
    room.kill("worker")
    keys = room.doubts("killed", 5, effect=True)
    room.start_worker()
    held = "SELECT count(*) FROM reconcilers_duelook WHERE holder <> ''"
    room.until(lambda: room.sql(held)[0][0] >= 1, "the look is being made")
    room.kill("worker")
    room.simulator.clear_faults()
    assert room.sql(held)[0][0] >= 1
    room.start_worker()
    room.until(lambda: settled(room, keys), "another worker has looked", seconds=60)
    assert room.simulator.ledger(account="acct_simkilled")["count"] == 5


def test_a_look_that_kills_its_worker_is_left_to_a_person_and_the_others_go_on(room):
    """K04: retried three times, then needs attention with the cause."""
    room.doubts("poison", 0, kind="poison")
    (poison,) = room.doubts("poison", 1, kind="poison")
    (Path(room.more_providers) / poison).touch()
    healthy = room.doubts("poison", 3, kind="poison")

    def verdict(key: str) -> tuple[str | None, str | None]:
        (row,) = room.sql(
            "SELECT verdict ->> 'code', waiting_on FROM operations_operation WHERE idem_key = %s",
            key,
        )
        return row[0], row[1]

    deadline = time.monotonic() + 120
    deaths = 0
    while verdict(poison)[0] != "look_kills_worker":
        assert time.monotonic() < deadline, (deaths, verdict(poison), room.logs())
        if not room.is_alive("worker"):
            deaths += 1
            room.kill("worker")
            lapse(room)
            room.start_worker()
        time.sleep(0.2)
    assert deaths == 3
    assert verdict(poison) == ("look_kills_worker", "person")
    room.until(
        lambda: all(verdict(key)[0] == "before_settle_point" for key in healthy),
        "the neighbours were looked at",
        seconds=30,
    )
    assert room.is_alive("worker")


def test_a_restart_of_postgres_needs_no_restart_of_the_workers(room):
    """K07."""
    before = room.doubts("pgbefore", 3, effect=True)
    room.kill("postgres")
    time.sleep(3)
    room.start_service(room.postgres)
    after = room.doubts("pgafter", 3, effect=True)
    room.until(lambda: settled(room, before + after), "looks go on by themselves", seconds=90)
    assert room.is_alive("worker")


def test_a_restart_of_redis_needs_no_restart_of_the_workers(room):
    """K08: freshness says that nobody reconciled meanwhile, and that somebody does again."""
    room.kill("valkey")
    during = room.doubts("redis", 3, effect=True)
    time.sleep(4)
    room.sql("UPDATE reconcilers_sweeplog SET finished_at = NULL WHERE name = 'reconcile'")
    room.start_service(room.valkey)
    room.until(lambda: settled(room, during), "wake-ups are heard again", seconds=90)
    (row,) = room.sql("SELECT finished_at FROM reconcilers_sweeplog WHERE name = 'reconcile'")
    assert row[0] is not None
    assert room.is_alive("worker")


def test_two_schedulers_do_not_double_the_work(room):
    """K03b: the slot is taken once, and both names are known."""
    room.start_beat("beat-2")
    try:
        query = (
            "SELECT refused, slot, schedulers FROM reconcilers_sweeplog WHERE name = 'reconcile'"
        )
        room.until(lambda: room.sql(query), "a first tick is booked", seconds=60)
        refused, slot, _ = room.sql(query)[0]

        def both_are_known_and_refused() -> bool:
            # A lone beat that was late is refused too: three refusals alone prove no second one.
            now, _, names = room.sql(query)[0]
            return now >= refused + 3 and len(names) >= 2

        room.until(both_are_known_and_refused, "ticks of two schedulers are refused", seconds=60)
        assert room.sql(query)[0][1] > slot
    finally:
        room.kill("beat-2")
