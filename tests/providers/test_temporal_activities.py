"""Activities, by the histories of their workflow."""

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf import json_format
from temporalio.api.history.v1 import History

from reconcilers.evidence import Outcome, Stage
from reconcilers.providers.temporal import activities
from reconcilers.providers.temporal.activities import Run as HistoryRun
from tests.providers.bench_temporal import FIXTURES, NEVER, TemporalBench
from tests.providers.contract_failures import may_count
from tests.support.temporal_server import Run


@pytest.fixture
def bench() -> Iterator[TemporalBench]:
    with TemporalBench.serving() as running:
        yield running


class TestActivities:
    def agent(self, bench: TemporalBench, workflow_id: str, **changes: Any) -> Run:
        return bench.server.start(workflow_id, **{"started": time.time() - 3600} | changes)

    async def history(self, bench: TemporalBench, marker: str, **changes: Any) -> Any:
        (look,) = await bench.ask(marker, object_kind="activity", **changes)
        return look

    @pytest.mark.parametrize(
        ("then", "status", "stage"),
        [
            ([], "scheduled", Stage.IN_FLIGHT),
            (["started"], "started", Stage.IN_FLIGHT),
            (["started", "completed"], "completed", Stage.DONE),
            (["started", "failed"], "failed", Stage.NOT_REACHED),
            (["started", "timed_out"], "timed_out", Stage.NOT_REACHED),
            (["canceled"], "canceled", Stage.NOT_REACHED),
        ],
    )
    async def test_its_last_event_says_how_far_it_came(self, bench, then, status, stage):
        run = self.agent(bench, "agent-1")
        scheduled = run.schedule("pay-1")
        run.schedule("pay-2")
        for what in then:
            run.add(f"activity_task_{what}_event_attributes", scheduled_event_id=scheduled)
        look = await self.history(bench, "agent-1/pay-1")
        (seen,) = look.sightings
        assert (seen.status, seen.stage) == (status, stage)
        assert (seen.id, seen.marker) == (f"{run.run_id}/agent-1/pay-1", "agent-1/pay-1")

    async def test_one_that_its_workflow_left_behind_is_for_a_person(self, bench):
        run = self.agent(bench, "agent-1")
        run.schedule("pay-1")
        run.close("terminated")
        (seen,) = (await self.history(bench, "agent-1/pay-1")).sightings
        assert (seen.status, seen.stage) == ("abandoned", Stage.NOT_REACHED)

    async def test_it_is_found_in_any_run_of_the_chain_and_on_any_page(self, bench):
        first = self.agent(bench, "agent-1")
        for number in range(25):
            first.schedule(f"other-{number}")
        second = self.agent(bench, "agent-1", chain=first)
        first.close("continued_as_new", new_run=second)
        first_pay = second.schedule("pay-1")
        second.add("activity_task_completed_event_attributes", scheduled_event_id=first_pay)
        bench.server.page_size = 10
        look = await self.history(bench, "agent-1/pay-1")
        assert [seen.id for seen in look.sightings] == [f"{second.run_id}/agent-1/pay-1"]
        assert look.outcome is Outcome.HIT
        look = await self.history(bench, "agent-1/other-24")
        assert [seen.id for seen in look.sightings] == [f"{first.run_id}/agent-1/other-24"]

    async def test_of_a_long_history_only_what_is_ours_is_kept(self, bench):
        run = self.agent(bench, "agent-1")
        for number in range(50):
            run.schedule(f"other-{number}")
        paid = run.schedule("pay-1")
        run.add("activity_task_completed_event_attributes", scheduled_event_id=paid)
        bench.server.page_size = 20
        look = await self.history(bench, "agent-1/pay-1")
        assert look.pages == 4
        _, kept = json.loads(look.answer)
        kept = json.loads(kept)
        assert [event["eventId"] for event in kept["ours"]] == [str(paid), str(paid + 1)]
        assert [(r["run_id"], r["events"]) for r in kept["runs"]] == [(run.run_id, 53)]
        assert "other-1" not in look.answer.decode()

    async def test_what_a_reset_copied_is_no_second_activity(self, bench):
        base = self.agent(bench, "agent-1")
        paid = base.schedule("pay-1")
        base.add("activity_task_completed_event_attributes", scheduled_event_id=paid)
        base.close("terminated")
        fresh = self.agent(bench, "agent-1", chain=base)
        fresh.events = list(base.events[:-1])
        look = await self.history(bench, "agent-1/pay-1")
        assert [seen.id for seen in look.sightings] == [f"{base.run_id}/agent-1/pay-1"]

    async def test_scheduled_twice_it_is_two_effects(self, bench):
        run = self.agent(bench, "agent-1")
        run.schedule("pay-1")
        after = self.agent(bench, "agent-1", chain=run, started=time.time() - 60)
        run.close("continued_as_new", new_run=after)
        after.schedule("pay-1")
        assert len((await self.history(bench, "agent-1/pay-1")).sightings) == 2

    async def test_the_key_may_stand_in_the_header_of_a_reported_workflow(self, bench):
        marker = uuid4().hex
        run = self.agent(bench, "agent-2")
        run.schedule("1", header={"idem_key": marker})
        run.schedule("2", header={"idem_key": "another"})
        look = await self.history(bench, marker, object_ids=("agent-2",))
        assert [seen.id for seen in look.sightings] == [f"{run.run_id}/agent-2/1"]
        again = await self.history(bench, marker, object_ids=(look.sightings[0].id,))
        assert again.sightings == look.sightings

    async def test_a_closed_workflow_whose_key_names_it_can_prove_absence(self, bench):
        self.agent(bench, "agent-3").close("completed")
        assert may_count(await self.history(bench, "agent-3/pay-1"))

    @pytest.mark.parametrize("case", ["open", "began later", "only reported"])
    async def test_what_may_still_come_or_lie_elsewhere_is_not_absent(self, bench, case):
        marker, ids = "agent-4/pay-1", tuple[str, ...]()
        run = self.agent(bench, "agent-4")
        if case != "open":
            run.close("completed")
        if case == "began later":
            bench.server.forget(run)
            self.agent(bench, "agent-4", started=time.time()).close("completed")
        if case == "only reported":
            marker, ids = uuid4().hex, ("agent-4",)
        look = await self.history(bench, marker, object_ids=ids)
        assert look.outcome is Outcome.EMPTY
        assert not may_count(look)

    async def test_a_run_that_is_gone_hides_its_activities(self, bench):
        first = self.agent(bench, "agent-5")
        second = self.agent(bench, "agent-5", chain=first)
        first.close("continued_as_new", new_run=second)
        second.close("completed")
        bench.server.forget(first)
        look = await self.history(bench, "agent-5/pay-1")
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "no longer there" in look.reason

    async def test_without_a_workflow_there_is_nothing_to_read(self, bench):
        look = await self.history(bench, uuid4().hex)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "nobody knows the workflow" in look.reason

    def test_a_history_as_the_command_line_exports_it_is_read(self):
        """`fixtures/history.json` is in the form of `temporal workflow show --output json`."""
        text = (FIXTURES / "history.json").read_text()
        events = json_format.Parse(text, History()).events
        run = HistoryRun(NEVER, events)
        found = activities.sightings_in("agent-9", [run], "agent-9/pay-1")
        assert [(seen.status, seen.detail) for seen in found] == [
            ("failed", "activity type charge_card, failure CardDeclined")
        ]
        assert run.is_closed
