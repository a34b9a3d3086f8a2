"""A provider that is down: one group, left alone, probed, and settled by itself afterwards."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from operations import ingest
from operations.actors import Scope
from operations.canonical import derive_key
from operations.models import Operation
from reconcilers import engine, sweeps
from reconcilers.models import DueLook
from reconcilers.reading import account_health, unknown_groups
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.doubtful import a_simulator, a_world  # noqa: F401
from tests.support.reconciling import World, look_now, make_due

pytestmark = pytest.mark.django_db

MANY = 500


def cut_off(world: World) -> list[str]:
    """The keys of MANY calls that took effect, and whose answers one outage swallowed."""
    runs = [f"outage-{number}" for number in range(MANY)]
    keys = [derive_key(run, 1, "call") for run in runs]

    def send(numbered: tuple[int, str]) -> None:
        number, key = numbered
        world.stripe.v1.payment_intents.create(
            {
                "amount": 1_000 + number,
                "currency": "usd",
                "confirm": True,
                "payment_method": "pm_card_visa",
                "metadata": {"idem_key": key},
            },
            {"idempotency_key": key},
        )

    with ThreadPoolExecutor(8) as senders:
        list(senders.map(send, enumerate(keys)))
    records = [
        {
            "record_id": f"rec-{run}",
            "type": "TOOL_UNKNOWN",
            "run": {"id": run, "agent": "renewals"},
            "step": 1,
            "tool_call_id": "call",
            "tool": "charge",
            "args": {"amount": 1_000 + number, "currency": "usd"},
        }
        for number, run in enumerate(runs)
    ]
    ingest.ingest_records([json.dumps(record) for record in records], world.runtime)
    return keys


def reads(simulator, since, path):
    return [
        row
        for row in simulator.requests()
        if row["method"] == "GET" and row["path"].startswith(path) and row["at"] >= since
    ]


class TestOutage:
    def test_one_outage_is_one_group_and_settles_by_itself(self, world):
        simulator = world.simulator
        simulator.fault({"status": 503}, method="GET")
        keys = cut_off(world)
        sweeps.run_once()
        assert DueLook.objects.count() == MANY
        with connection.cursor() as cur:
            cur.execute("UPDATE reconcilers_duelook SET due_at = clock_timestamp()")
        look_now()
        (group,) = unknown_groups([Scope("test", world.namespace)])
        assert (group.count, group.shelf) == (MANY, "provider unreachable")
        assert group.at_risk == {"USD": sum(1_000 + n for n in range(MANY))}
        assert group.account_name == "stripe"
        assert "503 from Stripe" in group.sentence or "not been answering" in group.sentence
        (health,) = account_health()
        assert (health.verdict, health.backlog) == ("down", MANY)
        assert health.errors[0][0] == "503 from Stripe"

        simulator.clear_faults()
        # Nobody does anything: the breaker lets a probe through within 30 s, and all follow it.
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            engine.run(5.0)
            if not DueLook.objects.exists():
                break
        states = Operation.objects.filter(idem_key__in=keys).values_list("state", flat=True)
        assert set(states.distinct()) == {"COMMITTED"}
        per_intent = simulator.ledger()["per_intent"]
        assert {per_intent[key] for key in keys} == {1}
        assert unknown_groups() == []

    def test_a_dead_provider_is_left_alone_and_probed(self, world):
        simulator = world.simulator
        simulator.fault({"status": 503}, method="GET")
        calls = [world.doubtful() for _ in range(5)]
        sweeps.run_once()
        for _ in range(6):
            make_due(*calls)
            engine.run(1.0, patience_seconds=0.0)
        began = time.time()
        make_due(*calls)
        engine.run(1.0, patience_seconds=0.0)
        assert len(reads(simulator, began, "/v1/")) <= 1
        for call in calls:
            assert call.operation.verdict["kind"] == "cannot_look"
            assert call.due.due_at is not None

    def test_a_defect_in_a_provider_is_a_failed_look(self, world, monkeypatch):
        from reconcilers.providers.stripe.session import StripeSession

        async def broken(*_):
            raise ZeroDivisionError

        monkeypatch.setattr(StripeSession, "ask", broken)
        call = world.doubtful(effect=True)
        look_now(call)
        assert call.operation.verdict["kind"] == "cannot_look"
        assert (
            "a defect in the stripe provider (ZeroDivisionError)"
            in (call.operation.verdict["sentence"])
        )
        assert call.findings[-1].outcome == "cannot_look"
