"""Report mode from outside: any order, twice, broken, before its run."""

import random
import uuid
from typing import Any

import pytest

from tests.support.runtime import Runtime


def record(kind: str, run: str, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "record_id": uuid.uuid4().hex,
        "type": kind,
        "occurred_at": "2026-11-30T12:00:00Z",
        "run": {"id": run, "agent": "renewals"},
    }
    if kind.startswith("TOOL") or kind == "RESULT_DELIVERED":
        body |= {"step": 1, "tool_call_id": "call_1", "tool": "tests.put"}
    if kind == "TOOL_INVOKED":
        body["args"] = {"amount": 5}
    return body | more


def new_run() -> str:
    return f"run_{uuid.uuid4().hex}"


def test_records_make_an_operation_and_duplicates_count_once(runtime: Runtime) -> None:
    run = new_run()
    batch = [
        record("RUN_STARTED", run),
        record("TOOL_INVOKED", run),
        record("TOOL_COMMITTED", run, result={"id": 1}, provider_ref="pi_7"),
        record("RUN_FINISHED", run),
    ]
    first = runtime.records(*batch)
    assert first.status_code == 200, first.text
    assert first.json()["accepted"] == 4
    assert first.json()["results"] == []
    again = runtime.records(*batch, verbose=True).json()
    assert again["duplicates"] == 4
    assert {row["status"] for row in again["results"]} == {"duplicate"}
    listed = runtime.http.get("/api/v1/operations", params={"run": run}).json()["items"]
    assert [(row["state"], row["provider_ref"]) for row in listed] == [("COMMITTED", "pi_7")]


def test_a_broken_record_is_kept_and_its_neighbours_too(runtime: Runtime) -> None:
    run = new_run()
    bad = record("TOOL_INVOKED", run, tool_call_id="b", args_raw='{"limit":Infinity}')
    del bad["args"]
    cut = record("TOOL_INVOKED", run, tool_call_id="c", args_raw='{"path":"/srv/a","rec')
    del cut["args"]
    odd = record("TOOL_INVOKED", run, tool_call_id="d", colour="red")
    good = record("TOOL_INVOKED", run, tool_call_id="e", args={"body": "abc\x00def"})
    answer = runtime.records(bad, cut, odd, good).json()
    assert (answer["accepted"], answer["malformed"]) == (1, 3)
    assert {row["status"] for row in answer["results"]} == {"malformed"}
    kept = runtime.http.get(f"/api/v1/records/{bad['record_id']}").json()
    assert kept["status"] == "malformed"
    assert kept["pointer"].endswith("/limit")


def test_a_record_id_reused_with_other_content_is_an_incident(runtime: Runtime) -> None:
    run = new_run()
    first = record("TOOL_INVOKED", run)
    runtime.records(first)
    answer = runtime.records(first | {"args": {"amount": 6}}).json()
    assert answer["incidents"] == 1
    assert answer["results"][0]["code"] == "RECORD_ID_REUSED"


def test_a_missing_id_is_kept_under_a_stand_in(runtime: Runtime) -> None:
    run = new_run()
    answer = runtime.records(record("TOOL_INVOKED", run, tool_call_id="")).json()
    assert answer["accepted"] == 1 or answer["results"][0]["status"] == "accepted"
    listed = runtime.http.get("/api/v1/operations", params={"run": run}).json()["items"]
    assert listed[0]["tool_call_id"].startswith("#fp:")


def test_nothing_but_json_is_refused_as_a_whole(runtime: Runtime) -> None:
    answer = runtime.http.post(
        "/api/v1/records", content=b"[{", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["code"] == "MALFORMED_JSON"


def test_ndjson_and_gzip_are_taken(runtime: Runtime) -> None:
    import gzip
    import json

    run = new_run()
    lines = [record("TOOL_INVOKED", run), record("TOOL_COMMITTED", run, result=1)]
    body = gzip.compress("\n".join(json.dumps(line) for line in lines).encode())
    answer = runtime.http.post(
        "/api/v1/records",
        content=body,
        headers={"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"},
    )
    assert answer.json()["accepted"] == 2, answer.text


def script(run: str) -> list[dict[str, Any]]:
    """Two attempts, a duplicate effect, a refused call and a finished run."""
    first, second = {"attempt": {"id": "a1"}}, {"attempt": {"id": "a2"}}
    other = {"tool_call_id": "call_2"}
    return [
        record("RUN_STARTED", run),
        record("LLM_RESPONDED", run, step=1, model_output={"say": "charge"}),
        record("TOOL_INVOKED", run, **first),
        record("TOOL_UNKNOWN", run, **first),
        record("TOOL_INVOKED", run, **second),
        record("TOOL_COMMITTED", run, provider_ref="pi_1", result=1, **first),
        record("TOOL_COMMITTED", run, provider_ref="pi_2", result=1, **second),
        record("TOOL_INVOKED", run, **other),
        record("TOOL_FAILED", run, effect="none", permanent=True, **other),
        record("RESULT_DELIVERED", run),
        record("RUN_FINISHED", run),
    ]


def outcome_of(runtime: Runtime, run: str) -> list[Any]:
    listed = runtime.http.get("/api/v1/operations", params={"run": run}).json()["items"]
    return sorted(
        (
            row["tool_call_id"],
            row["state"],
            row["failure"],
            sorted(incident["kind"] for incident in row["incidents"]),
        )
        for row in listed
    )


@pytest.mark.slow
def test_every_order_gives_one_state_and_one_set_of_incidents(runtime: Runtime) -> None:
    seen = []
    dice = random.Random(7)
    for _ in range(60):
        run = new_run()
        batch = script(run)
        dice.shuffle(batch)
        cut = dice.randrange(1, len(batch))
        for part in (batch[:cut], batch[cut:]):
            assert runtime.records(*part).status_code == 200
        found = outcome_of(runtime, run)
        if found not in seen:
            seen.append(found)
    assert len(seen) == 1, seen
    assert seen[0][0][:2] == ("call_1", "COMMITTED")
    assert "duplicate_effect" in seen[0][0][3]
    assert seen[0][1] == ["call_2", "FAILED", "provider_declined", ["permanent_failure"]] or (
        seen[0][1] == ("call_2", "FAILED", "provider_declined", ["permanent_failure"])
    )
