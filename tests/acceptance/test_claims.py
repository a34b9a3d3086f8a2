"""Every row of the claim table, asked over HTTP by a runtime that knows nothing else."""

import concurrent.futures
import hashlib
import json
import time
import uuid
from collections.abc import Callable

import pytest

from tests.support.runtime import Runtime, problem

FIELDS = {
    "decision", "operation", "idem_key", "args_fingerprint", "attempt_number", "attempt_id",
    "lease_expires_at", "send_within_ms", "first_sent_at", "grant", "result", "provider_ref",
    "approval", "verdict", "next_check_at", "retry_after_seconds",
}  # fmt: skip


def derived_key(*parts: object) -> str:
    text = json.dumps(["countersign.key.v1", *parts], separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_first_claim_is_told_to_execute_and_gets_a_lease(runtime: Runtime) -> None:
    body = runtime.new_call()
    answer = runtime.claim(body)
    assert answer.status_code == 201, answer.text
    granted = answer.json()
    assert set(granted) >= FIELDS
    assert granted["decision"] == "execute"
    assert granted["attempt_number"] == 1
    assert granted["attempt_id"] == body["attempt"]["id"]
    assert granted["send_within_ms"] is None
    assert granted["first_sent_at"] is None
    assert granted["lease_expires_at"].endswith("Z")
    assert granted["idem_key"] == derived_key(body["run"]["id"], 1, "call_1")
    assert granted["operation"]["state"] == "INVOKED"
    assert granted["operation"]["waiting_on"] is not None


def test_a_position_makes_another_key_and_stands_in_for_an_empty_id(runtime: Runtime) -> None:
    run = f"run_{uuid.uuid4().hex}"
    call = runtime.new_call(run={"id": run, "agent": "a"}, position=1)
    assert runtime.claim(call).json()["idem_key"] == derived_key(run, 1, "call_1", 1)
    empty = call | {"tool_call_id": "", "position": 2, "attempt": {"id": "x"}}
    assert runtime.claim(empty).json()["idem_key"] == derived_key(run, 1, "#2", 2)
    none = runtime.claim(call | {"tool_call_id": "", "position": None})
    assert "Persist the call" in problem(none, 422, "TOOL_CALL_ID_MISSING")["detail"]


def test_a_send_token_with_the_claim_brings_the_permit(runtime: Runtime) -> None:
    granted = runtime.claim(fenced=True, send_token="t" * 20, lease_seconds=30).json()
    assert 0 < granted["send_within_ms"] <= 30_000


def test_the_same_attempt_id_gets_the_same_answer_again(runtime: Runtime) -> None:
    body = runtime.new_call()
    first, again = runtime.claim(body), runtime.claim(body)
    assert (first.status_code, again.status_code) == (201, 201)
    for field in ("attempt_number", "attempt_id", "lease_expires_at", "idem_key"):
        assert first.json()[field] == again.json()[field]
    with_token = runtime.claim(body | {"send_token": "only-in-memory"})
    assert with_token.status_code == 201
    assert with_token.json()["send_within_ms"] > 0
    problem(runtime.claim(body | {"send_token": "another-one"}), 409, "ATTEMPT_IN_FLIGHT")


def test_another_attempt_meets_the_live_lease(runtime: Runtime) -> None:
    body = runtime.new_call()
    runtime.claim(body)
    refused = problem(runtime.claim(body | {"attempt": {"id": "other"}}), 409, "ATTEMPT_IN_FLIGHT")
    assert refused["retryable"] is True
    assert refused["retry_after_seconds"] is not None
    nameless = {name: value for name, value in body.items() if name != "attempt"}
    problem(runtime.claim(nameless), 409, "ATTEMPT_IN_FLIGHT")


def test_64_claims_of_one_key_at_once_give_exactly_one_execute(runtime: Runtime) -> None:
    body = runtime.new_call()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(
            pool.map(
                lambda number: runtime.claim(body | {"attempt": {"id": f"a{number}"}}), range(64)
            )
        )
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [201] + [409] * 63
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"ATTEMPT_IN_FLIGHT"}


def test_a_committed_call_is_replayed_and_says_so(runtime: Runtime) -> None:
    body = runtime.new_call()
    claim = runtime.claim(body)
    done = runtime.outcome(claim, "committed", result={"ok": [1, None]}, provider_ref="pi_1")
    assert done.status_code == 200, done.text
    assert done.json()["superseded"] is False
    assert done.json()["operation"]["state"] == "COMMITTED"
    replay = runtime.claim(body | {"attempt": {"id": "later"}})
    assert replay.status_code == 200
    assert replay.headers["idempotent-replayed"] == "true"
    assert replay.json()["decision"] == "replay"
    assert replay.json()["result"] == {"ok": [1, None]}
    assert replay.json()["provider_ref"] == "pi_1"


def test_other_arguments_under_one_key_are_refused_and_become_an_incident(
    runtime: Runtime,
) -> None:
    body = runtime.new_call()
    first = runtime.claim(body).json()
    reworded = body | {"args": {"customer": "cus_42", "amount": 250, "unit": "usd"}}
    code = "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS"
    refused = problem(runtime.claim(reworded), 409, code)
    assert refused["retryable"] is False
    found = runtime.read(first["idem_key"])
    assert [incident["kind"] for incident in found["incidents"]] == ["args_conflict"]
    assert found["args_fingerprint"] == first["args_fingerprint"]
    problem(runtime.claim(body | {"tool": "tests.other"}), 409, code)


@pytest.mark.parametrize("spelling", ["25000", "25000.0", "2.5e4"])
def test_one_number_in_three_spellings_is_one_fingerprint(runtime: Runtime, spelling: str) -> None:
    body = runtime.new_call(args_raw='{"amount":25000}')
    del body["args"]
    first = runtime.claim(body)
    assert first.status_code == 201, first.text
    again = runtime.claim(body | {"args_raw": f'{{ "amount": {spelling} }}'})
    assert again.status_code == 201
    assert again.json()["args_fingerprint"] == first.json()["args_fingerprint"]


@pytest.mark.parametrize(
    ("args_raw", "pointer"),
    [
        ('{"a":1,"a":2}', "/args/a"),
        ('{"limit":NaN}', "/args/limit"),
        ('{"limit":[1,-Infinity]}', "/args/limit/1"),
        ('{"big":1e400}', "/args/big"),
        ('{"note":"ok \\ud83d"}', "/args/note"),
        ('{"path":"/srv/a","recursive":fal', "/args"),
        ('{"a":1}{"a":1}', "/args"),
        ('{"n":9007199254740993.0}', "/args/n"),
        ("[" * 70 + "]" * 70, "/args"),
    ],
)
def test_broken_arguments_are_refused_with_the_place(
    runtime: Runtime, args_raw: str, pointer: str
) -> None:
    body = runtime.new_call(args_raw=args_raw)
    del body["args"]
    refused = problem(runtime.claim(body), 422, "INVALID_ARGS")
    assert refused["pointer"].startswith(pointer)


def test_a_duplicate_member_inside_args_is_invalid_args_and_outside_malformed(
    runtime: Runtime,
) -> None:
    text = json.dumps(runtime.new_call(args={"a": 1}))
    inside = runtime.claim_raw(text.replace('{"a": 1}', '{"a": 1, "a": 2}'))
    assert problem(inside, 422, "INVALID_ARGS")["pointer"] == "/args/a"
    outside = runtime.claim_raw(text.replace('"step": 1', '"step": 1, "step": 1'))
    problem(outside, 400, "MALFORMED_JSON")


def test_nul_big_integers_and_long_ids_survive(runtime: Runtime) -> None:
    body = runtime.new_call(
        tool_call_id="call|+/ ü" + "x" * 446,
        args_raw='{"body":"abc\\u0000def","id":9007199254740993123}',
    )
    del body["args"]
    answer = runtime.claim(body)
    assert answer.status_code == 201, answer.text
    canonical = b'{"body":"abc\\u0000def","id":9007199254740993123}'
    expected = "jcs-sha256:" + hashlib.sha256(canonical).hexdigest()
    assert answer.json()["args_fingerprint"] == expected


def test_a_wrong_fingerprint_of_the_runtime_is_refused(runtime: Runtime) -> None:
    problem(runtime.claim(args_fingerprint="jcs-sha256:" + "0" * 64), 422, "FINGERPRINT_MISMATCH")


def test_unknown_and_wrong_fields_are_named(runtime: Runtime) -> None:
    unknown = problem(runtime.claim(amuont=1), 422, "UNKNOWN_FIELD")
    assert unknown["pointer"] == "/amuont"
    assert "amuont" in unknown["detail"]
    nested = runtime.claim(run={"id": "r", "agent": "a", "agnet": "b"})
    assert problem(nested, 422, "UNKNOWN_FIELD")["pointer"] == "/run/agnet"
    for change, pointer in (
        ({"step": "3"}, "/step"),
        ({"step": True}, "/step"),
        ({"tool": "no spaces here"}, "/tool"),
        ({"lease_seconds": 0}, "/lease_seconds"),
        ({"lease_seconds": 3601}, "/lease_seconds"),
        ({"idem_key": ".."}, "/idem_key"),
        ({"idem_key": "ü"}, "/idem_key"),
    ):
        refused = problem(runtime.claim(**change), 422, "VALIDATION_ERROR")
        assert refused["pointer"] == pointer
    missing = runtime.new_call()
    del missing["args"]
    problem(runtime.claim(missing), 422, "VALIDATION_ERROR")


def test_one_key_for_two_calls_and_two_keys_for_one_call_collide(runtime: Runtime) -> None:
    key = f"k-{uuid.uuid4().hex}"
    body = runtime.new_call(idem_key=key)
    assert runtime.claim(body).status_code == 201
    problem(runtime.claim(body | {"step": 2}), 409, "KEY_COLLISION")
    problem(runtime.claim(body | {"idem_key": key + "-2"}), 409, "KEY_COLLISION")
    assert runtime.read(key)["incidents"]


def test_one_trigger_delivered_twice_finds_the_first_run(runtime: Runtime) -> None:
    trigger = f"stripe:evt_{uuid.uuid4().hex}"
    first = runtime.new_call()
    first["run"]["trigger"] = trigger
    assert runtime.claim(first).status_code == 201
    second = runtime.new_call()
    second["run"]["trigger"] = trigger
    assert problem(runtime.claim(second), 409, "DUPLICATE_RUN")["run_id"] == first["run"]["id"]


def test_a_run_beyond_its_budget_is_refused_and_recorded(runtime: Runtime) -> None:
    body = runtime.new_call(tool="tests.put")
    body["run"]["budget"] = {"max_steps": 2, "max_spend_minor": 60_000, "currency": "USD"}
    assert runtime.claim(body).status_code == 201
    assert runtime.claim(body | {"step": 2}).status_code == 201
    third = runtime.claim(body | {"step": 2, "tool_call_id": "c2", "attempt": {"id": "z"}})
    refused = problem(third, 429, "BUDGET_EXCEEDED")
    assert refused["retryable"] is False
    operation = runtime.read(refused["idem_key"])
    assert (operation["state"], operation["failure"]) == ("FAILED", "budget_exceeded")
    assert [incident["kind"] for incident in operation["incidents"]] == ["budget_exceeded"]


def test_failed_is_final(runtime: Runtime) -> None:
    body = runtime.new_call(tool="tests.put")
    claim = runtime.claim(body)
    failed = runtime.outcome(
        claim,
        "failed",
        effect="none",
        permanent=True,
        error={"type": "card_declined", "message": "no", "http_status": 402},
    )
    assert failed.json()["operation"]["failure"] == "provider_declined"
    refused = problem(
        runtime.claim(body | {"attempt": {"id": "n"}}), 409, "OPERATION_PREVIOUSLY_FAILED"
    )
    assert refused["failure"] == "provider_declined"
    assert refused["retryable"] is False


def test_attempts_are_counted_and_exhausted(runtime: Runtime) -> None:
    body = runtime.new_call(tool="tests.put")
    for number in (1, 2, 3):
        claim = runtime.claim(body | {"attempt": {"id": f"t{number}"}})
        assert claim.json()["attempt_number"] == number, claim.text
        report = runtime.outcome(claim, "failed", effect="none", error={"type": "connect"})
    operation = report.json()["operation"]
    if operation["state"] == "PENDING":
        problem(runtime.claim(body | {"attempt": {"id": "t4"}}), 429, "ATTEMPTS_EXHAUSTED")
        operation = runtime.read(operation["idem_key"])
    assert (operation["state"], operation["failure"]) == ("FAILED", "attempts_exhausted")


def test_a_lapsed_lease_without_permit_was_not_sent_and_with_one_is_in_doubt(
    runtime: Runtime,
) -> None:
    fenced = runtime.claim(tool="tests.mail", fenced=True, lease_seconds=1).json()
    permitted = runtime.claim(tool="tests.mail", send_token="s", lease_seconds=1).json()
    unfenced = runtime.claim(tool="tests.mail", lease_seconds=1).json()
    time.sleep(3.2)
    assert runtime.read(fenced["idem_key"])["state"] == "PENDING"
    assert runtime.read(permitted["idem_key"])["state"] == "UNKNOWN"
    doubtful = runtime.read(unfenced["idem_key"])
    assert doubtful["state"] == "UNKNOWN"
    assert doubtful["waiting_on"] in ("look", "person")
    assert doubtful["possible_windows"] == ["W2", "W3"]


def test_an_unknown_call_waits_for_reconciliation(runtime: Runtime) -> None:
    body = runtime.new_call(tool="tests.mail")
    runtime.outcome(runtime.claim(body), "unknown", error={"type": "timeout"})
    waits = runtime.claim(body | {"attempt": {"id": "again"}})
    assert waits.status_code == 202
    assert waits.json()["decision"] == "await_reconciliation"
    assert waits.json()["retry_after_seconds"] is not None


def test_a_gated_call_waits_for_approval_and_an_executor_only_waits(runtime: Runtime) -> None:
    body = runtime.new_call(tool="tests.gated")
    waits = runtime.claim(body)
    assert waits.status_code == 202, waits.text
    answer = waits.json()
    assert answer["decision"] == "await_approval"
    assert answer["approval"]["id"].startswith("apr_")
    assert answer["approval"]["expires_at"].endswith("Z")
    assert answer["attempt_number"] in (None, 0)
    approval = runtime.http.get(f"/api/v1/approvals/{answer['approval']['id']}").json()
    assert (approval["status"], approval["used"]) == ("pending", False)
    again = runtime.claim(body)
    assert again.json()["approval"]["id"] == answer["approval"]["id"]


def test_the_default_policy_gates_unsafe_tools_in_live_only(
    runtime: Runtime, new_runtime: Callable[..., Runtime]
) -> None:
    live = new_runtime("live")
    assert live.claim(tool="tests.mail").json()["decision"] == "await_approval"
    assert live.claim(tool="tests.search").json()["decision"] == "execute"
    assert runtime.claim(tool="tests.mail").json()["decision"] == "execute"


def test_what_belongs_to_another_namespace_does_not_exist(
    runtime: Runtime, new_runtime: Callable[..., Runtime]
) -> None:
    body = runtime.new_call()
    key = runtime.claim(body).json()["idem_key"]
    other = new_runtime(namespace="elsewhere")
    problem(other.http.get(f"/api/v1/operations/{key}"), 404, "NOT_FOUND")
    problem(other.http.get(f"/api/v1/runs/{body['run']['id']}"), 404, "NOT_FOUND")
    assert other.claim(body).status_code == 201
    problem(new_runtime("live").http.get(f"/api/v1/operations/{key}"), 404, "NOT_FOUND")


def test_keys_and_scopes(new_runtime: Callable[..., Runtime], runtime: Runtime) -> None:
    reader = new_runtime(scopes="operations:read")
    problem(reader.claim(), 403, "SCOPE_MISSING")
    nobody = runtime.http.post(
        "/api/v1/operations", json={}, headers={"Authorization": "Bearer nonsense"}
    )
    problem(nobody, 401, "UNAUTHENTICATED")
    text = runtime.http.post(
        "/api/v1/operations", content="step=1", headers={"Content-Type": "text/plain"}
    )
    problem(text, 415, "UNSUPPORTED_MEDIA_TYPE")
    large = runtime.claim(args={"blob": "x" * (1 << 20)})
    problem(large, 413, "TOO_LARGE")
    for path in ("statement", "decisions"):
        mine = runtime.http.post(f"/api/v1/approvals/apr_{'0' * 26}/{path}", json={})
        assert mine.status_code == 403
