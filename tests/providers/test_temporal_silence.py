"""What Temporal's NOT_FOUND proves, and when it proves nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import grpc
import pytest

from reconcilers.evidence import Outcome
from reconcilers.providers.base import KnownObject
from tests.providers.bench_temporal import TemporalBench
from tests.providers.contract_failures import may_count
from tests.support.gates import OpenGate


@pytest.fixture
def bench() -> Iterator[TemporalBench]:
    with TemporalBench.serving() as running:
        yield running


async def test_not_found_within_retention_can_prove_absence(bench):
    (look,) = await bench.ask(uuid4().hex)
    assert look.outcome is Outcome.EMPTY
    assert may_count(look)
    assert look.covers_from <= datetime.now(UTC) - timedelta(days=29)


async def test_not_found_after_retention_says_nothing(bench):
    marker = uuid4().hex
    run = bench.server.start(marker)
    run.close("completed")
    bench.server.forget(run)
    sent = datetime.now(UTC) - timedelta(days=31)
    (look,) = await bench.ask(marker, window_from=sent)
    assert look.outcome is Outcome.CANNOT_LOOK
    assert look.permanent
    assert "has forgotten" in look.reason


async def test_an_open_workflow_is_found_however_old_it_is(bench):
    marker = uuid4().hex
    bench.server.start(marker)
    sent = datetime.now(UTC) - timedelta(days=400)
    (look,) = await bench.ask(marker, window_from=sent)
    assert look.outcome is Outcome.PENDING


async def test_the_retention_is_that_of_the_namespace_now(bench):
    bench.server.retention_days = 1
    sent = datetime.now(UTC) - timedelta(days=2)
    (look,) = await bench.ask(uuid4().hex, window_from=sent)
    assert look.outcome is Outcome.CANNOT_LOOK


async def test_where_the_retention_may_not_be_asked_hits_count_and_silence_does_not(bench):
    bench.server.faults["DescribeNamespace"] = grpc.StatusCode.PERMISSION_DENIED
    marker = uuid4().hex
    (look,) = await bench.ask(marker)
    assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
    bench.make_effect(marker)
    (look,) = await bench.ask(marker)
    assert look.outcome is Outcome.HIT


async def test_a_namespace_of_several_clusters_never_proves_absence(bench):
    bench.server.clusters = ["east", "west"]
    (look,) = await bench.ask(uuid4().hex)
    assert look.outcome is Outcome.EMPTY
    assert not may_count(look)


async def test_a_known_workflow_that_retention_may_have_taken_is_no_control(bench):
    bench.server.retention_days = 1
    known = KnownObject(
        kind="workflow", id=bench.absent_id, created_at=datetime.now(UTC) - timedelta(days=2)
    )
    (look,) = await bench.ask(uuid4().hex, known={"workflow": known})
    assert may_count(look)


async def test_another_namespace_is_named_in_the_reason(bench):
    (look,) = await bench.ask(uuid4().hex, config={"namespace": "payments"})
    assert look.reason == "this frontend has no namespace called payments"


async def test_turns_are_taken_for_each_request(bench):
    gate = OpenGate()
    await bench.ask(uuid4().hex, gate=gate, count_effects=True)
    assert gate.turns == ["namespace", "describe", "list"]


async def test_nobody_listening_is_an_outage(bench):
    (look,) = await bench.ask(uuid4().hex, config={"target": "127.0.0.1:1"})
    assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, False)


async def test_a_namespace_that_went_meanwhile_is_no_missing_workflow(bench):
    bench.server.faults["DescribeNamespace"] = grpc.StatusCode.PERMISSION_DENIED
    (look,) = await bench.ask(uuid4().hex, config={"namespace": "payments"})
    assert look.reason == "this frontend has no namespace called payments"
