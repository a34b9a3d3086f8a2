"""The temporal provider against a frontend of real gRPC, and against fixtures of every status."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

import grpc
import pytest

from reconcilers.evidence import Outcome, Stage
from reconcilers.providers.base import BadConfig, parse_config
from reconcilers.providers.temporal import executions
from reconcilers.providers.temporal.executions import named, sighting_of
from tests.providers.bench_temporal import FIXTURES, NEVER, TEMPORAL, TemporalBench
from tests.providers.contract import ProviderContract
from tests.providers.contract_failures import may_count
from tests.support.temporal_server import Run


@pytest.fixture
def bench() -> Iterator[TemporalBench]:
    with TemporalBench.serving() as running:
        yield running


class TestContract(ProviderContract):
    kind = "temporal"


class TestStatuses:
    CASES = json.loads((FIXTURES / "statuses.json").read_text())

    @pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}-{case['status']}")
    def test_each_status_says_how_far_the_effect_has_come(self, case):
        run = Run("wf-1", "")
        run.status = case["status"]
        seen = sighting_of(case["kind"], run.info(), "wf-1", verified=True)
        assert (seen.status, seen.stage.value) == (case["status"], case["stage"])

    def test_every_status_of_the_table_has_a_fixture(self):
        covered = {case["status"] for case in self.CASES if case["kind"] == "workflow"}
        assert covered == set(executions.STAGES)

    def test_a_status_that_is_not_known_counts_as_open(self):
        info = Run("wf-1", "").info()
        info.status = 77  # type: ignore[assignment]
        assert sighting_of("workflow", info, "wf-1", verified=True).stage is Stage.IN_FLIGHT

    @pytest.mark.parametrize(
        ("reference", "names"),
        [
            ("order_1", ("order_1", "")),
            (f"{NEVER}/order/1", ("order/1", NEVER)),
            (f"order/1/{NEVER}", ("order/1", NEVER)),
            (NEVER, ("key", NEVER)),
            ("", None),
            ("x" * 1001, None),
        ],
    )
    def test_runtimes_may_report_workflow_and_run_in_any_order(self, reference, names):
        assert named(reference, "key") == names

    def test_a_key_that_looks_like_a_run_id_is_a_workflow_id(self):
        assert named(NEVER, NEVER) == (NEVER, "")


class TestConfig:
    @pytest.mark.parametrize("target", ["temporal", "host:", ":7233", "http://host:7233", "h:x"])
    def test_a_target_is_a_host_and_a_port(self, bench, target):
        with pytest.raises(BadConfig, match=r"^target: expected"):
            parse_config(TEMPORAL, "test", bench.config(target=target))

    def test_a_key_never_leaves_this_machine_in_the_clear(self, bench):
        with pytest.raises(BadConfig, match="in the clear"):
            parse_config(TEMPORAL, "live", bench.config(target="t.example:7233", tls="off"))
        parse_config(TEMPORAL, "live", bench.config(target="t.example:7233"))

    def test_half_a_client_certificate_is_none(self, bench):
        with pytest.raises(BadConfig, match=r"^client_cert: "):
            parse_config(TEMPORAL, "live", bench.config(client_key="-----BEGIN"))

    def test_certificates_and_no_encryption_do_not_go_together(self, bench):
        with pytest.raises(BadConfig, match=r"^tls: certificates"):
            parse_config(TEMPORAL, "live", bench.config(server_ca="-----BEGIN", tls="off"))

    def test_without_the_client_an_account_is_refused_in_words(self, bench, monkeypatch):
        module = sys.modules["reconcilers.providers.temporal.provider"]
        monkeypatch.setattr(module, "find_spec", lambda _: None)
        with pytest.raises(BadConfig, match="temporalio is not installed"):
            parse_config(TEMPORAL, "test", bench.config())

    def test_only_describe_and_history_ever_prove_absence(self):
        proving = [way.name for way in TEMPORAL.ways("workflow") if way.may_prove_absence]
        assert proving == ["describe"]
        assert [way.name for way in TEMPORAL.ways("activity")] == ["history"]


def test_a_console_without_temporal_never_loads_its_client():
    check = "from reconcilers import registry; registry.providers(); import sys"
    check += "; sys.exit('temporalio' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


class TestWorkflows:
    async def test_an_open_workflow_is_in_flight(self, bench):
        marker = uuid4().hex
        bench.server.start(marker)
        (look,) = await bench.ask(marker)
        assert look.outcome is Outcome.PENDING
        assert look.sightings[0].stage is Stage.IN_FLIGHT
        assert json.loads(look.answer)["execution"]["workflowId"] == marker

    async def test_where_starting_it_was_the_effect_an_open_one_is_done(self, bench):
        marker = uuid4().hex
        bench.server.start(marker)
        (look,) = await bench.ask(marker, object_kind="workflow_start")
        assert look.outcome is Outcome.HIT

    @pytest.mark.parametrize("status", ["failed", "terminated", "canceled", "timed_out"])
    async def test_a_closed_one_that_did_not_complete_exists_without_its_effect(
        self, bench, status
    ):
        marker = uuid4().hex
        bench.server.start(marker).close(status)
        (look,) = await bench.ask(marker)
        assert look.outcome is Outcome.HIT
        assert look.sightings[0].stage is Stage.NOT_REACHED

    async def test_runs_of_one_chain_are_one_effect(self, bench):
        """Continued as new twice, and reported by its first run: the newest run's status counts."""
        marker = uuid4().hex
        first = bench.server.start(marker)
        second = bench.server.start(marker, chain=first)
        first.close("continued_as_new", new_run=second)
        third = bench.server.start(marker, chain=first)
        second.close("continued_as_new", new_run=third)
        third.close("completed")
        for ids in ((), (f"{marker}/{first.run_id}", second.run_id)):
            (look,) = await bench.ask(marker, object_ids=ids)
            (seen,) = look.sightings
            assert (seen.id, seen.status) == (f"{first.run_id}/{marker}", "completed")

    async def test_an_older_chain_is_followed_through_its_close_events(self, bench):
        marker = uuid4().hex
        first = bench.server.start(marker)
        second = bench.server.start(marker, chain=first)
        first.close("continued_as_new", new_run=second)
        second.close("completed")
        again = bench.server.start(marker)
        (look,) = await bench.ask(marker, object_ids=(first.run_id,))
        assert {(seen.id, seen.status) for seen in look.sightings} == {
            (f"{first.run_id}/{marker}", "completed"),
            (f"{again.run_id}/{marker}", "running"),
        }

    @pytest.mark.parametrize("tells_chains", [True, False])
    async def test_counting_effects_counts_a_chain_once_by_its_newest_run(
        self, bench, tells_chains
    ):
        """Older frontends tell the first run of a chain in its history alone."""
        bench.server.tells_chains = tells_chains
        marker = uuid4().hex
        began = time.time() - 60
        first = bench.server.start(marker, started=began)
        second = bench.server.start(marker, chain=first, started=began + 20)
        first.close("failed", new_run=second)
        second.close("failed")
        for look in await bench.ask(marker, count_effects=True):
            (seen,) = look.sightings
            assert (seen.id, seen.status) == (f"{first.run_id}/{marker}", "failed")
        third = bench.server.start(marker, chain=first, started=began + 40)
        third.close("completed")
        for look in await bench.ask(marker, count_effects=True, object_ids=(second.run_id,)):
            (seen,) = look.sightings
            assert (seen.id, seen.status) == (f"{first.run_id}/{marker}", "completed")

    async def test_a_second_start_under_the_same_id_is_a_second_effect(self, bench):
        marker = uuid4().hex
        first, second = bench.server.start(marker), bench.server.start(marker)
        first.close("completed")
        looks = await bench.ask(marker, count_effects=True)
        assert [look.lookup for look in looks] == ["describe", "list"]
        assert {seen.id for seen in looks[1].sightings} == {
            f"{first.run_id}/{marker}",
            f"{second.run_id}/{marker}",
        }

    async def test_visibility_that_is_behind_proves_nothing(self, bench):
        marker = uuid4().hex
        bench.server.start(marker, visible_at=time.time() + 60)
        (look,) = await bench.ask(marker, lookups=("list",))
        assert look.outcome is Outcome.EMPTY
        assert not may_count(look)

    async def test_of_very_many_runs_the_newest_are_read(self, bench):
        marker = uuid4().hex
        began = time.time() - 100
        runs = [bench.server.start(marker, started=began + n) for n in range(52)]
        (look,) = await bench.ask(marker, lookups=("list",))
        assert {seen.id for seen in look.sightings} == {
            f"{run.run_id}/{marker}" for run in runs[2:]
        }
        assert not look.complete

    async def test_visibility_is_read_to_its_last_page_and_each_run_again(self, bench):
        marker = f"it's \\ {uuid4().hex}"
        runs = [bench.server.start(marker) for _ in range(5)]
        bench.server.page_size = 2
        (look,) = await bench.ask(marker, lookups=("list",))
        assert {seen.id for seen in look.sightings} == {f"{r.run_id}/{marker}" for r in runs}
        assert bench.server.calls.count("ListWorkflowExecutions") == 3
        assert all(seen.verified for seen in look.sightings)

    async def test_a_run_that_cannot_be_read_again_is_no_hit_and_no_silence(self, bench):
        marker = uuid4().hex
        bench.server.start(marker)
        bench.server.faults["DescribeWorkflowExecution"] = grpc.StatusCode.UNAVAILABLE
        (look,) = await bench.ask(marker, lookups=("list",))
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "could not be read again" in look.reason
        assert not look.sightings[0].verified

    async def test_the_memo_carries_the_key_where_the_workflow_id_does_not(self, bench):
        marker = uuid4().hex
        memo = {"idem_key": marker, "args_fingerprint": "f" * 64}
        run = bench.server.start("order_77", memo=memo)
        run.close("completed")
        (look,) = await bench.ask(marker, object_ids=("order_77",))
        (seen,) = look.sightings
        assert (seen.marker, seen.fingerprint) == (marker, "f" * 64)
        assert seen.id == f"{run.run_id}/order_77"

    async def test_a_reported_workflow_of_another_key_says_so(self, bench):
        bench.server.start("order_78", memo={"idem_key": "another"})
        (look,) = await bench.ask(uuid4().hex, object_ids=("order_78",))
        assert look.sightings[0].marker == "another"

    async def test_a_reported_workflow_without_a_key_keeps_the_name_it_was_reported_by(self, bench):
        bench.server.start("order_79")
        (look,) = await bench.ask(uuid4().hex, object_ids=("order_79",))
        assert (look.sightings[0].id, look.sightings[0].marker) == ("order_79", None)
