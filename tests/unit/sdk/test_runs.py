"""Runs, tools, resuming, records and traces."""

import asyncio
from pathlib import Path
from typing import Any

import countersign
import httpx
import pytest
from countersign import AsyncClient, ClearedCall, Client, tracing
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.scripted_console import ScriptedConsole, execute, problem, replay, wait
from tests.unit.sdk.conftest import Sdk


@pytest.fixture
def client(console: ScriptedConsole, tmp_path: Path) -> Any:
    with Sdk("threads", console, tmp_path).client() as client:
        yield client


def types(console: ScriptedConsole) -> list[str]:
    return [record["type"] for body in console.told("records") for record in body]


# Runs and tools ----------------------------------------------------------------------------------


def test_a_run_that_ends_well_is_reported_finished(
    client: Client, console: ScriptedConsole
) -> None:
    with client.run("run_7", trigger="stripe:evt_9", budget={"max_steps": 4}) as run:
        run.call(1, "a", "mail.send", {}, lambda cleared: 1)
        run.responded(2, {"tool": "x"})
    assert types(console) == ["LLM_RESPONDED", "RUN_FINISHED"]
    claimed = console.told("claim")[0]["run"]
    assert claimed["trigger"] == "stripe:evt_9"
    assert claimed["budget"] == {"max_steps": 4}
    assert console.told("records")[0][0]["model_output"] == {"tool": "x"}


def test_a_run_that_is_left_by_an_exception_can_be_gone_on_with(
    client: Client, console: ScriptedConsole
) -> None:
    console.on("claim", wait("await_approval", approval={"id": "apr_1", "url": "u"}))
    with pytest.raises(countersign.ApprovalPending), client.run("run_7") as run:
        run.call(1, "a", "mail.send", {}, lambda cleared: 1, on_wait="park")
    assert types(console) == []


def test_a_tool_is_a_function_with_a_name(client: Client, console: ScriptedConsole) -> None:
    @client.tool("stripe.charge", lease_seconds=90)
    def charge(cleared: ClearedCall) -> int:
        return int(cleared.args["amount"])

    with client.run("run_7") as run:
        assert run.call(1, "a", charge, {"amount": 5}).value == 5
        assert charge({"amount": 6}, step=2, tool_call_id="b", lease_seconds=30).value == 6
    claims = console.told("claim")
    assert [claim["tool"] for claim in claims] == ["stripe.charge"] * 2
    assert [claim["lease_seconds"] for claim in claims] == [90, 30]
    with pytest.raises(RuntimeError, match="outside a run"):
        charge({}, step=1, tool_call_id="a")


def test_a_client_has_defaults_for_every_call(console: ScriptedConsole, tmp_path: Path) -> None:
    console.on("claim", wait("await_approval"))
    sdk = Sdk("threads", console, tmp_path)
    with (
        sdk.client(defaults={"on_wait": "park"}, agent_version="2") as client,
        pytest.raises(countersign.ApprovalPending),
    ):
        client.guard("run", 1, "c", "t", {}, lambda cleared: 1)
    assert console.told("claim")[0]["run"]["agent_version"] == "2"


async def test_runs_work_under_asyncio(console: ScriptedConsole, tmp_path: Path) -> None:
    async def effect(cleared: ClearedCall) -> str:
        await asyncio.sleep(0)
        return "done"

    async with (
        AsyncClient(
            "http://console",
            "key",
            spool_dir=tmp_path,
            transport=console.transport,
            background_transport=console.transport,
        ) as client,
        client.run("run_7") as run,
    ):
        both = await asyncio.gather(
            run.call(1, "a", "t", {}, effect, position=0),
            run.call(1, "a", "t", {}, lambda cleared: "in a thread", position=1),
        )
    assert [done.value for done in both] == ["done", "in a thread"]
    assert types(console) == ["RUN_FINISHED"]


async def test_a_cancelled_task_reports_and_stays_cancelled(
    console: ScriptedConsole, tmp_path: Path
) -> None:
    begun = asyncio.Event()

    async def long(cleared: ClearedCall) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with AsyncClient(
        "http://console",
        "key",
        spool_dir=tmp_path,
        transport=console.transport,
        background_transport=console.transport,
    ) as client:
        task = asyncio.create_task(client.guard("run", 1, "c", "t", {}, long))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    (outcome,) = console.told("outcome")
    assert (outcome["outcome"], outcome["error"]["type"]) == ("unknown", "CancelledError")


def test_a_coroutine_needs_the_async_client(client: Client, console: ScriptedConsole) -> None:
    async def effect(cleared: ClearedCall) -> None: ...

    def hidden(cleared: ClearedCall) -> Any:
        return effect(cleared)

    with pytest.raises(TypeError, match="AsyncClient"):
        client.guard("run", 1, "c", "t", {}, effect)
    assert console.asked == []
    with pytest.raises(TypeError, match="AsyncClient"):
        client.guard("run", 1, "c", "t", {}, hidden, attempts=1)
    assert console.told("outcome")[0]["effect"] == "none", "a coroutine that never began"


def test_a_call_without_an_effect_is_not_claimed(client: Client, console: ScriptedConsole) -> None:
    with pytest.raises(TypeError, match="no effect"):
        client.guard("run", 1, "c", "t", {})
    assert console.asked == []


# Resuming ----------------------------------------------------------------------------------------

RUN = {
    "run": {"id": "run_7", "agent": "renewals", "agent_version": "2", "budget": None},
    "status": "running",
    "resume_from_step": 2,
    "steps": [
        {
            "step": 1,
            "execution": "fresh",
            "model_output": {"tool": "stripe.charge"},
            "operations": [{"tool_call_id": "a", "state": "COMMITTED", "result": {"id": "pi_1"}}],
        },
        {"step": 2, "execution": "fresh", "model_output": None, "operations": []},
    ],
}


def test_a_restarted_agent_learns_what_is_done(client: Client, console: ScriptedConsole) -> None:
    console.on("runs", (200, RUN))
    resumed = client.resume("run_7")
    assert (resumed.known, resumed.done(1), resumed.done(2)) == (True, True, False)
    assert resumed.model_output(1) == {"tool": "stripe.charge"}
    assert resumed.model_output(2) is resumed.model_output(9) is None
    assert resumed.result_of(1, "a") == {"id": "pi_1"}
    assert resumed.result_of(1, "b") is None
    assert resumed.info.agent_version == "2", "a run finishes on the version it started with"


def test_a_run_nobody_knows_starts_at_the_beginning(
    client: Client, console: ScriptedConsole
) -> None:
    console.on("runs", problem(404, "NOT_FOUND"))
    resumed = client.resume("run_8")
    assert (resumed.known, resumed.done(0), resumed.resume_from_step) == (False, False, 0)


def test_unfinished_runs_are_listed_to_the_end(client: Client, console: ScriptedConsole) -> None:
    pages: list[dict[str, Any]] = [
        {"items": [{"run_id": "a"}], "next_cursor": "x y"},
        {"items": [{"run_id": "b"}]},
    ]
    console.on("runs", (200, pages[0]), (200, pages[1]))
    assert [run["run_id"] for run in client.unfinished_runs(agent="re new")] == ["a", "b"]
    queries = [asked.query for asked in console.asked]
    assert queries[0] == {"status": "unfinished", "agent": "re new"}
    assert queries[1]["cursor"] == "x y"


# Records -----------------------------------------------------------------------------------------


def test_records_go_in_batches_and_get_ids(client: Client, console: ScriptedConsole) -> None:
    answer = {"accepted": 2, "duplicates": 1, "malformed": 0, "incidents": 0, "results": [{}]}
    console.on("records", (200, answer))
    summary = client.records({"type": "RUN_STARTED", "run": {"id": f"r{n}"}} for n in range(5001))
    sent = console.told("records")
    assert [len(batch) for batch in sent] == [5000, 1]
    assert len({record["record_id"] for batch in sent for record in batch}) == 5001
    assert (summary["accepted"], summary["duplicates"], summary["spooled"]) == (4, 2, 0)
    assert len(summary["results"]) == 2


def test_records_wait_for_the_console(client: Client, console: ScriptedConsole) -> None:
    console.on("records", httpx.ConnectError("refused"))
    summary = client.records([{"type": "RUN_STARTED", "run": {"id": "r"}}])
    assert (summary["accepted"], summary["spooled"]) == (0, 1)
    console.on("records", (200, {"accepted": 1}))
    assert client.flush(5) == 0


# Traces ------------------------------------------------------------------------------------------


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


@pytest.mark.parametrize(
    ("answer", "execution", "state"),
    [
        (execute(), "fresh", "COMMITTED"),
        (replay("done"), "replayed", "COMMITTED"),
        (wait("await_reconciliation"), None, "UNKNOWN"),
        (wait("await_approval"), None, "PENDING"),
        (problem(409, "OPERATION_PREVIOUSLY_FAILED", failure="denied"), None, "FAILED"),
    ],
)
def test_a_span_carries_key_state_and_execution(
    sdk: Sdk,
    console: ScriptedConsole,
    spans: InMemorySpanExporter,
    answer: Any,
    execution: str | None,
    state: str,
) -> None:
    console.on("claim", answer)
    try:
        sdk.guard(on_wait="park", on_unknown="raise")
    except countersign.CountersignError:
        assert execution is None
    (span,) = spans.get_finished_spans()
    attributes = span.attributes
    assert attributes is not None
    assert span.name == "execute_tool stripe.charge"
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    key = countersign.derive_key("run_7", 3, "call_abc")
    assert attributes["countersign.idempotency_key"] == key
    assert attributes.get("countersign.execution") == execution
    assert attributes["countersign.operation.state"] == state


def test_it_works_without_opentelemetry(
    sdk: Sdk, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "trace", None)
    assert sdk.guard().value == "done"
    assert spans.get_finished_spans() == ()
