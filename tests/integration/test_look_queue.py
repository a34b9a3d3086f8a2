"""The queue of looks: leases, fences, strikes, slots; and what a stale holder may still do."""

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from uuid import uuid4

import pytest
from django.db import connection, transaction

from operations import rows, settling, settling_many
from reconcilers import conclusions, queue, sweeps
from reconcilers.cases import Told
from reconcilers.evidence import Look, Outcome
from reconcilers.models import DueLook, Finding, ProviderAccount, SweepLog
from reconcilers.reading import freshness
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.reconciling import CHARGE, Call, World, make_due, publish
from tests.support.simulated_provider import SimulatedProvider

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def world(simulator: SimulatedProvider) -> World:
    publish(charge=CHARGE)
    here = World(simulator)
    here.account()
    return here


def queued(world: World, count: int = 1) -> list[Call]:
    calls = [world.doubtful() for _ in range(count)]
    sweeps.run_once()
    make_due(*calls)
    return calls


def lease(lane: str, *, holder: str = "slice", limit: int = 100, strikes: int = 0):
    with connection.cursor() as cur:
        return queue.lease(cur, lane, holder=holder, limit=limit, strikes=strikes)


def lane() -> str:
    return str(ProviderAccount.objects.get().id)


def lapse(*calls: Call) -> None:
    DueLook.objects.filter(pk__in=[call.id for call in calls]).update(
        leased_until="2020-01-01T00:00:00Z"
    )


def empty_look() -> Look:
    with connection.cursor() as cur:
        now = rows.clock(cur)
    return Look(
        lookup="list", lookup_class="B", outcome=Outcome.EMPTY, started_at=now, ended_at=now
    )


class TestSweep:
    def test_every_unknown_gets_one_due_look(self, world):
        calls = [world.doubtful() for _ in range(3)]
        assert sweeps.enqueue_missing() == 3
        assert sweeps.enqueue_missing() == 0
        assert {call.due.lane for call in calls} == {lane()}

    def test_a_look_of_another_purpose_begins_anew_when_doubt_returns(self, world):
        (call,) = queued(world)
        DueLook.objects.filter(pk=call.id).update(purpose="rest", due_at=None, looks=9, fence=7)
        assert sweeps.enqueue_missing() == 1
        due = call.due
        assert (due.purpose, due.looks, due.fence) == ("settle", 0, 8)


class TestLeases:
    def test_two_slices_never_hold_the_same_look(self, world):
        calls = queued(world, 12)
        taken: list[list[queue.Lease]] = []

        def take(name: str) -> None:
            taken.append(lease(lane(), holder=name, limit=5))
            connection.close()

        threads = [threading.Thread(target=take, args=(f"s{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ids = [held.operation_id for held in chain.from_iterable(taken)]
        assert len(ids) == len(set(ids)) == len(calls)

    def test_a_lane_takes_two_slices_and_no_third(self, world):
        queued(world, 6)
        here = lane()
        for holder in ("one", "two"):
            with connection.cursor() as cur:
                assert [name for name, _ in queue.lanes_with_work(cur)] == [here]
            assert len(lease(here, holder=holder, limit=2)) == 2
        with connection.cursor() as cur:
            assert queue.lanes_with_work(cur) == []

    def test_a_lease_is_prolonged_while_it_lasts_and_not_after(self, world):
        (call,) = queued(world)
        lease(lane(), holder="mine")
        with connection.cursor() as cur:
            assert queue.renew(cur, ["mine"]) == 1
            lapse(call)
            assert queue.renew(cur, ["mine"]) == 0

    def test_a_look_that_is_due_later_is_left_alone(self, world):
        call = world.doubtful()
        sweeps.run_once()
        assert lease(lane()) == []
        assert call.due.holder == ""


class TestFences:
    def test_a_stale_holders_conclusion_is_refused_and_its_evidence_kept(self, world):
        """K02: the work outlived its lease, and somebody else has it now."""
        (call,) = queued(world)
        account = ProviderAccount.objects.get()
        (slow,) = lease(lane(), holder="slow")
        lapse(call)
        (quick,) = lease(lane(), holder="quick", strikes=1)
        assert quick.fence == slow.fence + 1
        counts = conclusions.conclude(account.id, [Told(lease=slow, looks=(empty_look(),))])
        assert counts == Counter(stale=1)
        assert Finding.objects.filter(operation=call.id).count() == 1
        assert not call.operation.verdict
        assert (call.due.holder, call.due.fence) == ("quick", quick.fence)

        counts = conclusions.conclude(account.id, [Told(lease=quick, looks=(empty_look(),))])
        assert counts["waiting"] == 1
        assert call.operation.verdict["kind"] == "waiting"
        assert call.due.holder == ""

    def test_a_conclusion_is_made_once(self, world):
        (call,) = queued(world)
        (held,) = lease(lane())
        account = ProviderAccount.objects.get()
        assert conclusions.conclude(account.id, [Told(lease=held, looks=())])["waiting"] == 1
        make_due(call)
        (again,) = lease(lane())
        assert again.fence == held.fence + 1
        assert conclusions.conclude(account.id, [Told(lease=held, looks=())])["stale"] == 1

    def test_one_operations_trouble_is_not_its_neighbours(self, world, monkeypatch):
        calls = queued(world, 3)
        leases = lease(lane())
        bad = calls[1].id
        one, many = settling.set_verdict, settling_many.hold_many

        def failing(cur, op_id, *args, **more):
            if op_id == bad:
                cur.execute("SELECT 1 / 0")
            return one(cur, op_id, *args, **more)

        def failing_together(cur, held, **more):
            if any(each.op_id == bad for each in held):
                cur.execute("SELECT 1 / 0")
            return many(cur, held, **more)

        monkeypatch.setattr(settling, "set_verdict", failing)
        monkeypatch.setattr(settling_many, "hold_many", failing_together)
        account = ProviderAccount.objects.get()
        told = [Told(lease=held, looks=(empty_look(),)) for held in leases]
        counts = conclusions.conclude(account.id, told)
        assert (counts["waiting"], counts["failed"]) == (2, 1)
        assert calls[0].operation.verdict["kind"] == "waiting"
        assert calls[1].operation.verdict is None
        assert calls[1].due.holder != ""


class TestStrikes:
    """K04: what kills its worker is isolated, retried three times, and left to a person."""

    def test_lost_leases_shrink_the_batch_down_to_one(self, world):
        calls = queued(world, 30)
        assert len(lease(lane())) == 30
        lapse(*calls)
        assert lease(lane()) == []
        assert len(lease(lane(), strikes=1, holder="a")) == 20
        lapse(*calls)
        assert len(lease(lane(), strikes=2, holder="b")) == 1

    def test_three_losses_need_attention_and_the_others_go_on(self, world):
        poison, fine = queued(world, 2)
        account = ProviderAccount.objects.get()
        for strikes in (0, 1, 2):
            held = {one.operation_id: one for one in lease(lane(), strikes=strikes)}
            if fine.id in held:
                told = [Told(lease=held[fine.id], looks=(empty_look(),))]
                conclusions.conclude(account.id, told)
            assert poison.id in held
            lapse(poison)
        (held_poison,) = lease(lane(), strikes=2)
        assert held_poison.strikes == queue.MOST_STRIKES
        conclusions.conclude(
            account.id, [Told(lease=held_poison, looks=(), attention="look_kills_worker")]
        )
        operation = poison.operation
        assert operation.verdict["kind"] == "needs_human"
        assert operation.verdict["code"] == "look_kills_worker"
        assert "died three times" in operation.verdict["sentence"]
        assert operation.waiting_on == "person"
        assert poison.due.strikes == queue.MOST_STRIKES - 1
        assert fine.operation.verdict["kind"] == "waiting"
        assert fine.due.strikes == 0


class TestSlots:
    def test_two_schedulers_run_a_slot_once(self, world):
        """K03b: two beats tick in the same second."""
        taken = [sweeps.take_slot("hourly", 3600, scheduler=name) for name in ("a", "b", "a")]
        assert taken == [True, False, False]
        log = SweepLog.objects.get(pk="hourly")
        assert log.refused == 2

    def test_a_scheduler_gone_wild_runs_no_more_often(self, world):
        assert sum(sweeps.take_slot("hourly", 3600, scheduler="wild") for _ in range(200)) == 1

    def test_racing_schedulers_run_a_slot_once(self, world):
        wins: list[bool] = []

        def tick() -> None:
            wins.append(sweeps.take_slot("hourly", 3600, scheduler=uuid4().hex))
            connection.close()

        threads = [threading.Thread(target=tick) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(wins) == 1

    def test_each_new_slot_runs(self, world):
        assert sweeps.take_slot("quick", 0.05, scheduler="a")
        with connection.cursor() as cur:
            cur.execute("SELECT pg_sleep(0.06)")
        assert sweeps.take_slot("quick", 0.05, scheduler="b")
        assert set(SweepLog.objects.get(pk="quick").schedulers) == {"a", "b"}

    def test_freshness_is_the_last_sweep_that_finished(self, world):
        """K08: not whether a process is up."""
        assert freshness().is_stale
        sweeps.finished(sweeps.RECONCILE, {"missing": 0})
        assert not freshness().is_stale
        SweepLog.objects.update(finished_at="2020-01-01T00:00:00Z")
        assert freshness().is_stale
        assert (freshness().age_seconds or 0) > 3600


class TestRenewing:
    def test_a_lease_whose_look_is_being_concluded_is_passed_over(self, world):
        """Renewal locks in no order of ours: waiting here is how the two would deadlock."""
        queued(world, 3)
        leases = lease(lane())
        holders = list(DueLook.objects.values_list("holder", flat=True).distinct())
        locked, free = threading.Event(), threading.Event()

        def conclude_slowly():
            with transaction.atomic(), connection.cursor() as cur:
                queue.still_held(cur, leases[:1])
                locked.set()
                free.wait(10)
            connection.close()

        other = threading.Thread(target=conclude_slowly)
        other.start()
        assert locked.wait(10)
        try:
            with transaction.atomic(), connection.cursor() as cur:
                cur.execute("SET LOCAL lock_timeout = '2s'")
                assert queue.renew(cur, holders) == 2
        finally:
            free.set()
            other.join()
