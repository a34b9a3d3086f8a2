"""The engine as a whole: lanes, outages, limits, defects, and what pages and commands say."""

import io
import threading
import time
from collections.abc import Iterator

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.db import connection

from operations.actors import Scope
from operations.models import Event
from reconcilers import engine, seats, sweeps, tasks
from reconcilers.models import DueLook, Finding, ProviderAccount, SweepLog
from reconcilers.reading import evidence_ladder, raw_answer, unknown_groups
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.reconciling import (
    CHARGE,
    IDEMPOTENT,
    World,
    look_now,
    make_due,
    publish,
    travel,
)
from tests.support.simulated_provider import SimulatedProvider

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def world(simulator: SimulatedProvider) -> Iterator[World]:
    publish(
        charge=CHARGE,
        idempotent=IDEMPOTENT,
        searched=CHARGE | {"lookups": ["search"]},
        mail__send={"tool_class": "unsafe", "provider": "mail"},
    )
    here = World(simulator)
    here.account()
    yield here
    simulator.clear_faults()


def reads(simulator, since, path="/v1/payment_intents"):
    return [
        row
        for row in simulator.requests()
        if row["method"] == "GET" and row["path"].startswith(path) and row["at"] >= since
    ]


class TestLanes:
    def test_one_window_serves_every_unknown_of_an_account(self, world):
        calls = [world.doubtful(effect=True) for _ in range(60)]
        began = time.time()
        look_now(*calls)
        assert {call.operation.state for call in calls} == {"COMMITTED"}
        assert len(reads(world.simulator, began)) == 1

    def test_a_slow_provider_delays_no_other(self, world, simulator, tmp_path_factory):
        slow_simulator = SimulatedProvider(tmp_path_factory.mktemp("slow")).start()
        try:
            slow = World(slow_simulator)
            slow.account(timeout_seconds=30)
            late = slow.doubtful(effect=True)
            slow_simulator.fault({"latency_ms": 6000}, method="GET")
            fast = world.doubtful(effect=True)
            sweeps.run_once()
            make_due(late, fast)
            runner = threading.Thread(target=_run_engine, args=(20.0,))
            began = time.monotonic()
            runner.start()
            while fast.operation.state == "UNKNOWN" and time.monotonic() - began < 6:
                time.sleep(0.05)
            settled = time.monotonic() - began
            assert fast.operation.state == "COMMITTED"
            assert late.operation.state == "UNKNOWN"
            assert settled < 5
            # What comes due while the slow one still hangs is served as well.
            second = world.doubtful(effect=True)
            while second.operation.state == "UNKNOWN" and time.monotonic() - began < 12:
                time.sleep(0.05)
            assert second.operation.state == "COMMITTED"
            runner.join()
            assert late.operation.state == "COMMITTED"
        finally:
            slow_simulator.stop()

    def test_engines_beyond_the_seats_do_nothing(self, world):
        call = world.doubtful(effect=True)
        sweeps.run_once()
        make_due(call)
        with seats.taken() as one, seats.taken() as two:
            assert one is not None
            assert two is not None
            assert {one.number, two.number} == {1, 2}
            with seats.taken() as third:
                assert third is None
            SweepLog.objects.update(slot=0)
            assert "commit" not in tasks.wake.apply().result
        SweepLog.objects.update(slot=0)
        assert tasks.wake.apply().result["commit"] == 1
        assert call.operation.state == "COMMITTED"

    def test_a_tick_sweeps_and_works(self, world):
        call = world.doubtful(effect=True)
        assert tasks.wake.apply().result["missing"] == 1
        assert tasks.wake.apply().result is None or call.operation.state == "COMMITTED"
        assert call.operation.state == "COMMITTED"
        assert SweepLog.objects.get(pk="reconcile").finished_at is not None


def _run_engine(seconds):
    try:
        engine.run(seconds)
    finally:
        connection.close()


class TestLimits:
    def test_a_limit_is_used_to_the_full_and_never_passed(self, world):
        account = ProviderAccount.objects.get()
        account.config["limits"] = {"account": 1000, "search": 20, "*": 1000}
        account.save()
        calls = [world.doubtful(tool="searched") for _ in range(45)]
        began = time.time()
        look_now(*calls, seconds=12)
        moments = sorted(
            row["at"] for row in reads(world.simulator, began, "/v1/payment_intents/search")
        )
        assert len(moments) >= 45
        # In no second more than the limit, allowing for the wire's own jitter.
        pairs = zip(moments, moments[20:], strict=False)
        assert all(later - earlier > 0.9 for earlier, later in pairs)
        first = moments[:45]
        # A busy machine gets a share of it; how much a quiet one uses, the bench says.
        assert (len(first) - 1) / (first[-1] - first[0]) > 8


class TestReading:
    def test_the_ladder_says_what_was_asked_and_what_it_can_prove(self, world):
        call = world.doubtful()
        look_now(call)
        ladder = evidence_ladder(call.id)
        assert ladder is not None
        by_name = {rung.lookup: rung for rung in ladder.rungs}
        listed = by_name["list"]
        assert (listed.lookup_class, listed.answer) == ("B", "0 objects")
        assert listed.meaning == "not visible yet"
        assert listed.horizon_at == ladder.settles_at
        assert by_name["get"].meaning == "no id recorded"
        assert by_name["search"].horizon_at is None
        assert ladder.next_look_at == call.due.due_at
        assert ladder.account == "stripe"
        assert raw_answer(call.id, call.findings[0].pk)
        travel(call, 1000)
        look_now(call)
        ladder = evidence_ladder(call.id)
        assert ladder is not None
        by_name = {rung.lookup: rung for rung in ladder.rungs}
        assert by_name["list"].meaning == "counts towards absence"

    def test_groups_put_what_a_person_must_see_first(self, world):
        conflict = world.claim()
        conflict.send(amount=2_500)
        conflict.report("unknown")
        mail = world.claim(tool="mail.send")
        mail.report("unknown")
        look_now(conflict, world.doubtful(), mail)
        shelves = [group.shelf for group in unknown_groups()]
        assert shelves == ["conflict", "needs a person", "waiting for horizon"]
        assert unknown_groups([Scope("live", "elsewhere")]) == []


class TestCommands:
    def run(self, *words, **more):
        out = io.StringIO()
        call_command(*words, stdout=out, **more)
        return out.getvalue()

    def test_a_dry_run_says_what_would_follow_and_changes_nothing(self, world):
        found, waiting = world.doubtful(effect=True), world.doubtful()
        replay = world.doubtful(tool="idempotent")
        events = Event.objects.count()
        said = self.run("reconcile", "--once", "--dry-run")
        assert "committed: would be committed" in said
        assert "waiting: would stay as it is" in said
        assert "waiting: would be released (replay)" in said
        assert "It happened: Stripe's list" in said
        assert said.endswith("1 committed, 2 waiting\n")
        assert Event.objects.count() == events
        assert not Finding.objects.exists()
        assert not DueLook.objects.exists()
        assert ProviderAccount.objects.get().external_id == ""
        assert {c.operation.state for c in (found, waiting, replay)} == {"UNKNOWN"}

        said = self.run("reconcile", "--once", "--provider", "stripe")
        assert "committed: committed" in said
        assert "waiting: released (replay)" in said
        assert [c.operation.state for c in (found, waiting, replay)] == [
            "COMMITTED",
            "UNKNOWN",
            "PENDING",
        ]

    def test_nothing_unknown(self, world):
        assert self.run("reconcile", "--once", "--dry-run") == "nothing is UNKNOWN\n"

    def test_an_account_is_made_from_a_file_by_the_providers_schema(self, world, tmp_path):
        path = tmp_path / "stripe.yaml"
        document = {"secret_key": "sk_live_simx", "account": "acct_x", "deadline_hours": 6}
        path.write_text(yaml.safe_dump(document))
        words = ["create_provider_account", "stripe", "--environment", "live", "--name", "eu"]
        printed = self.run(*words, "--config", str(path)).strip()
        account = ProviderAccount.objects.get(pk=printed)
        assert (account.name, account.external_id, account.namespace) == ("eu", "acct_x", "default")
        assert account.config == {"deadline_hours": 6}
        path.write_text(yaml.safe_dump(document | {"account": "acct_y"}))
        with pytest.raises(CommandError, match="an account called 'eu' exists"):
            self.run(*words, "--config", str(path))

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("secret_key: sk_test_1", "a test key in the live environment"),
            ("secret: sk_live_1", "secret: stripe has no such field"),
            ("{}", "secret_key: missing"),
            ("- sk_live_1", "must be a YAML mapping"),
            ("secret_key: [sk_live_1", "no YAML at line"),
        ],
    )
    def test_a_wrong_file_is_refused_with_the_field_and_without_the_secret(
        self, world, monkeypatch, text, words
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        command = ["create_provider_account", "stripe", "--environment", "live", "--config", "-"]
        with pytest.raises(CommandError) as refused:
            self.run(*command)
        assert words in str(refused.value)
        assert "sk_live_1" not in str(refused.value)
