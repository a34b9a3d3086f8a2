"""Lists by keyset, counts with a cap, documents, and what a restarted agent reads."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from operations import paging, reading, runs_reading
from operations.actors import Runtime
from operations.errors import DomainError
from operations.reading import OperationQuery
from operations.runs_reading import RunQuery
from tests.support.records import key_of, read, record, report, runtime

pytestmark = pytest.mark.django_db

TYPES: dict[str, dict[str, Any]] = {
    "INVOKED": {"type_": "TOOL_INVOKED"},
    "COMMITTED": {"type_": "TOOL_COMMITTED"},
    "UNKNOWN": {"type_": "TOOL_UNKNOWN"},
    "PENDING": {"type_": "TOOL_FAILED", "effect": "none"},
    "FAILED": {"type_": "TOOL_FAILED", "effect": "none", "permanent": True},
}


@pytest.fixture
def who() -> Runtime:
    return runtime()


@pytest.fixture
def forty(who: Runtime) -> list[str]:
    """Forty operations in every state, of two tools, in four runs; ids newest first."""
    states = list(TYPES)
    for n in range(40):
        state = TYPES[states[n % 5]]
        report(
            who,
            record(
                call=f"c{n}",
                run={"id": f"run_{n % 4}", "agent": f"agent_{n % 2}"},
                tool=f"tool_{n % 2}",
                **state,
            ),
        )
    with connection.cursor() as cur:
        cur.execute("SELECT idem_key FROM operations_operation ORDER BY id DESC")
        return [row[0] for row in cur.fetchall()]


def pages(query: OperationQuery, limit: int = 3) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        items, cursor = reading.list_operations(query, cursor, limit)
        assert len(items) <= limit
        yield from items
        if cursor is None:
            return


def test_pages_show_everything_once_newest_first(who: Runtime, forty: list[str]) -> None:
    assert [item["idem_key"] for item in pages(OperationQuery(who.scope))] == forty


@pytest.mark.parametrize(
    "wanted",
    [
        {"state": "UNKNOWN"},
        {"state": "COMMITTED"},
        {"state": "FAILED"},
        {"tool": "tool_1"},
        {"tool": "tool_1", "state": "COMMITTED"},
        {"tool": "tool_0", "state": "UNKNOWN"},
        {"run": "run_2"},
        {"run": "run_2", "state": "INVOKED"},
        {"waiting_on": "look"},
        {"waiting_on": "look", "tool": "tool_0"},
        {"waiting_on": "look", "state": "UNKNOWN"},
        {"waiting_on": "person"},
        {"waiting_on": "lease", "tool": "tool_0"},
        {"tool": "nobody.uses"},
        {"run": "run_9"},
    ],
)
@pytest.mark.parametrize("window", [2, 7, 2000])
def test_every_filter_shows_exactly_what_fits(
    who: Runtime, forty: list[str], wanted: dict[str, str], window: int, monkeypatch: Any
) -> None:
    """However small the window that is searched for a filter without an index."""
    branch = paging.Branch.__init__

    def narrow(self: Any, *args: Any, **options: Any) -> None:
        branch(self, *args, **{"window": window, **options})

    monkeypatch.setattr(paging.Branch, "__init__", narrow)
    names = {"run": "run_id"}
    expected = [
        key
        for key in forty
        if all(read(who, key)[names.get(name, name)] == value for name, value in wanted.items())
    ]
    for scope in (who.scope, None):
        query = OperationQuery(scope, **wanted)
        assert [item["idem_key"] for item in pages(query)] == expected
    if window == 2000:
        assert reading.capped_count(OperationQuery(who.scope, **wanted)) == (len(expected), False)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"waiting_on": "person"}, "standing_by_waiting_on"),
        ({"waiting_on": "look", "state": "UNKNOWN"}, "standing_by_waiting_on"),
        ({"gate": "waiting"}, "standing_by_gate"),
    ],
)
def test_rare_filters_have_indexes_that_fit(
    who: Runtime, forty: list[str], wanted: dict[str, str], index: str
) -> None:
    """An empty answer costs no look through everything that is open."""
    with connection.cursor() as cur:
        cur.execute("ANALYZE operations_standing")
        cur.execute("SET LOCAL enable_seqscan = off")
        for branch in reading._branches(cur, OperationQuery(who.scope, **wanted)):
            assert branch.checks == ()
            sql, params = branch.matching(paging.NEWEST, 50)
            cur.execute(f"EXPLAIN {sql}", params)
            assert index in str(cur.fetchall())


def test_a_count_stops_at_its_cap(who: Runtime, forty: list[str]) -> None:
    assert reading.capped_count(OperationQuery(who.scope), cap=10) == (10, True)
    assert reading.capped_count(OperationQuery(who.scope), cap=40) == (40, False)


def test_what_never_was_a_cursor_is_refused(who: Runtime) -> None:
    with pytest.raises(DomainError, match="cursor"):
        reading.list_operations(OperationQuery(who.scope), "nonsense")


def test_windows_follow_what_is_known(who: Runtime) -> None:
    report(who, record(call="i"), record("TOOL_UNKNOWN", call="u"))
    report(who, record("TOOL_FAILED", call="p", effect="none"))
    assert read(who, key_of("i"))["possible_windows"] == ["W2", "W3"]
    assert read(who, key_of("u"))["possible_windows"] == ["W2", "W3"]
    assert read(who, key_of("p"))["possible_windows"] == ["W2"]


@pytest.mark.parametrize(
    ("state", "decision"),
    [
        ("INVOKED", "in_flight"),
        ("COMMITTED", "replay"),
        ("UNKNOWN", "await_reconciliation"),
        ("PENDING", "execute"),
        ("FAILED", "refused"),
    ],
)
def test_the_decision_is_what_a_claim_would_get(who: Runtime, state: str, decision: str) -> None:
    report(who, record(**TYPES[state]))
    document = read(who, key_of())
    assert (document["state"], document["decision"]) == (state, decision)
    assert document["url"].endswith(f"/ops/{document['id']}/")


def test_a_restarted_agent_reads_where_to_go_on(who: Runtime) -> None:
    run = {"id": "run_1", "agent": "renewals"}
    report(
        who,
        {
            "record_id": "m1",
            "type": "LLM_RESPONDED",
            "run": run,
            "step": 1,
            "model_output": {"say": 1},
        },
        record("TOOL_COMMITTED", step=1, result={"id": "pi_1"}),
        record("TOOL_COMMITTED", step=1, replayed=True),
        {"record_id": "m2", "type": "STEP_COMPLETED", "run": run, "step": 2},
        record("TOOL_UNKNOWN", step=3),
        {
            "record_id": "m4",
            "type": "LLM_RESPONDED",
            "run": run,
            "step": 4,
            "model_output": {"say": 4},
        },
    )
    document = runs_reading.run_document(who.scope, "run_1")
    assert document["run"]["id"] == "run_1"
    assert document["run"]["agent"] == "renewals"
    assert (document["status"], document["resume_from_step"]) == ("waiting", 3)
    first, second, third, fourth = document["steps"]
    assert (first["execution"], first["model_output"]) == ("replayed", {"say": 1})
    assert first["operations"][0]["result"] == {"id": "pi_1"}
    assert (second["operations"], second["completed"]) == ([], True)
    assert (third["execution"], third["operations"][0]["state"]) == ("fresh", "UNKNOWN")
    assert fourth["model_output"] == {"say": 4}


def test_a_step_that_failed_for_good_is_where_the_run_stopped(who: Runtime) -> None:
    report(who, record("TOOL_COMMITTED", step=1), record(step=2, **TYPES["FAILED"]))
    assert runs_reading.run_document(who.scope, "run_1")["resume_from_step"] == 2
    report(who, record("TOOL_COMMITTED", step=3))
    assert runs_reading.run_document(who.scope, "run_1")["resume_from_step"] == 4


def test_a_run_of_another_namespace_does_not_exist(who: Runtime) -> None:
    report(who, record())
    for scope, run_id in ((runtime(namespace="other").scope, "run_1"), (who.scope, "run_2")):
        with pytest.raises(DomainError) as caught:
            runs_reading.run_document(scope, run_id)
        assert caught.value.code == "NOT_FOUND"


def test_runs_are_listed_by_status_and_agent(who: Runtime, forty: list[str]) -> None:
    report(who, {"record_id": "f", "type": "RUN_FINISHED", "run": {"id": "run_3"}})
    report(who, record("TOOL_COMMITTED", call="x", run={"id": "run_calm", "agent": "agent_1"}))

    def ids(**wanted: Any) -> list[str]:
        items, cursor = runs_reading.list_runs(RunQuery(who.scope, **wanted))
        assert cursor is None
        return sorted(item["run"]["id"] for item in items)

    assert ids() == ["run_0", "run_1", "run_2", "run_3", "run_calm"]
    assert ids(status="unfinished") == ["run_0", "run_1", "run_2", "run_calm"]
    assert ids(status="unfinished", agent="agent_1") == ["run_1", "run_calm"]
    assert ids(status="waiting", agent="agent_1") == ["run_1"]
    assert ids(status="finished") == ["run_3"]
    assert ids(status="finished", agent="agent_1") == ["run_3"]
    assert ids(status="finished", agent="agent_0") == []
    assert ids(agent="agent_0") == ["run_0", "run_2"]
    assert ids(status="waiting") == ["run_0", "run_1", "run_2"]
    assert ids(status="running") == ["run_calm"]
    with pytest.raises(DomainError):
        ids(status="sleeping")
