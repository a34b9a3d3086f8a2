"""Batches of records, from outside."""

import gzip
import json

import pytest

from tests.support.api import Api, assert_problem


@pytest.fixture(scope="module")
def api(live_product):
    return Api(live_product)


def record(number, kind="TOOL_INVOKED", **changes):
    body = {
        "record_id": f"r-{number}-{kind}",
        "type": kind,
        "run": {"id": f"run-{number}", "agent": "exporter"},
        "step": 0,
        "tool_call_id": "call",
        "tool": "tests.reported",
        **({"args": {"n": number}} if kind == "TOOL_INVOKED" else {}),
        **changes,
    }
    return {name: value for name, value in body.items() if value is not ...}


def test_an_array_is_stored_and_counted(api):
    batch = [record(1), record(1, "TOOL_COMMITTED", result={"id": "x"}, provider_ref="x")]
    answer = api.post("/records", batch)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "accepted": 2, "duplicates": 0, "malformed": 0, "incidents": 0, "results": [],
    }  # fmt: skip
    again = api.post("/records?verbose=1", batch).json()
    assert (again["accepted"], again["duplicates"]) == (0, 2)
    assert [result["status"] for result in again["results"]] == ["duplicate", "duplicate"]
    found = api.get("/records/r-1-TOOL_COMMITTED").json()
    assert found["status"] == "accepted"
    assert set(found) >= {"record_id", "status", "received_at", "idem_key", "code", "pointer"}
    operation = api.get(f"/operations/{found['idem_key']}").json()
    assert (operation["state"], operation["provider_ref"]) == ("COMMITTED", "x")


def test_lines_and_gzip_are_read_too(api):
    lines = "\n".join(json.dumps(record(n)) for n in (2, 3)) + "\n"
    kind = {"Content-Type": "application/x-ndjson"}
    assert api.post("/records", lines.encode(), headers=kind).json()["accepted"] == 2
    packed = gzip.compress(json.dumps([record(4)]).encode())
    answer = api.post("/records", packed, headers={"Content-Encoding": "gzip"})
    assert answer.json()["accepted"] == 1


def test_a_record_that_is_wrong_never_harms_its_batch(api):
    bad = json.dumps(record(5)).replace('{"n": 5}', '{"n": 1, "n": 2}')
    surplus = json.dumps(record(6, surprise=1))
    good = json.dumps(record(7))
    answer = api.post("/records", f"[{bad},{surplus},{good}]".encode()).json()
    assert (answer["accepted"], answer["malformed"]) == (1, 2)
    by_code = {result["code"]: result for result in answer["results"]}
    assert by_code["INVALID_ARGS"]["pointer"] == "/args/n"
    assert by_code["UNKNOWN_FIELD"]["pointer"] == "/surprise"
    lines = f"{good}\nnonsense\n".encode()
    answer = api.post("/records", lines, headers={"Content-Type": "application/x-ndjson"}).json()
    assert (answer["duplicates"], answer["malformed"]) == (1, 1)


def test_a_reused_record_id_is_kept_as_an_incident(api):
    api.post("/records", [record(8)])
    answer = api.post("/records", [record(8, args={"n": "other"})]).json()
    assert answer["incidents"] == 1
    assert answer["results"][0]["code"] == "RECORD_ID_REUSED"


def test_only_what_is_no_array_of_json_is_refused(api):
    for body in (b"[", b"", b"[{}] x", b"\xff\xfe"):
        assert_problem(api.post("/records", body), 400, "MALFORMED_JSON")
    assert_problem(api.post("/records", b'{"type":"TOOL_INVOKED"}'), 422, "VALIDATION_ERROR")
    assert_problem(api.post("/records", b"[]"), 422, "VALIDATION_ERROR")
    many = ("[" + ",".join(["{}"] * 5001) + "]").encode()
    assert_problem(api.post("/records", many), 422, "VALIDATION_ERROR")
    assert_problem(api.post("/records?verbose=2", [record(9)]), 422, "VALIDATION_ERROR")


def test_a_record_of_another_namespace_does_not_exist(api):
    api.post("/records", [record(10)])
    other = Api(api.product)
    assert_problem(other.get("/records/r-10-TOOL_INVOKED"), 404, "NOT_FOUND")
    assert other.post("/records", [record(10)]).json()["accepted"] == 1


def test_record_ids_with_a_slash_are_found(api):
    api.post("/records", [record(11, record_id="a/b c")])
    assert api.http.get("/api/v1/records/a%2Fb%20c").json()["record_id"] == "a/b c"


def test_five_thousand_records_are_one_request(api):
    batch = [record(n, run={"id": "big", "agent": "e"}, step=n) for n in range(100_000, 105_000)]
    answer = api.post("/records", batch)
    assert answer.json()["accepted"] == 5000
