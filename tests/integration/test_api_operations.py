"""Claims, reports, reads and waiting, from outside."""

import threading
import time

import pytest

from tests.support.api import Api, assert_problem


@pytest.fixture(scope="module")
def api(live_product):
    return Api(live_product)


OPERATION_FIELDS = {
    "id", "idem_key", "environment", "namespace", "run_id", "step", "tool_call_id", "position",
    "tool", "args_fingerprint", "state", "failure", "waiting_on", "closed", "decision", "version",
    "attempts", "attempt_number", "result", "result_erased", "provider_ref", "effect_status",
    "amount_minor", "currency", "possible_windows", "verdict", "approval", "incidents",
    "superseded_by", "compensates", "key_expires_at", "created_at", "updated_at", "url",
}  # fmt: skip
CLAIM_FIELDS = {
    "decision", "operation", "idem_key", "args_fingerprint", "attempt_number", "attempt_id",
    "lease_expires_at", "send_within_ms", "first_sent_at", "grant", "result", "provider_ref",
    "approval", "verdict", "next_check_at", "retry_after_seconds",
}  # fmt: skip


def test_a_call_is_claimed_reported_and_replayed(api):
    answer = api.claim(run={"id": "life", "agent": "a"}, fenced=True, send_token="t-1")
    assert answer.status_code == 201
    claimed = answer.json()
    assert set(claimed) >= CLAIM_FIELDS
    assert set(claimed["operation"]) >= OPERATION_FIELDS
    assert claimed["decision"] == "execute"
    assert claimed["send_within_ms"] > 0
    done = api.outcome(claimed, "committed", result={"id": "ch_1"}, provider_ref="ch_1")
    assert done.status_code == 200
    assert done.json()["superseded"] is False
    assert done.json()["operation"]["state"] == "COMMITTED"
    again = api.claim(run={"id": "life", "agent": "a"})
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert again.json()["result"] == {"id": "ch_1"}
    read = api.get(f"/operations/{claimed['idem_key']}")
    assert read.json()["result"] == {"id": "ch_1"}


def test_a_live_lease_refuses_everyone_else_and_says_when_to_come_back(api):
    run = {"id": "busy", "agent": "a"}
    first = api.claimed(run=run, attempt={"id": "one"})
    problem = assert_problem(api.claim(run=run, attempt={"id": "two"}), 409, "ATTEMPT_IN_FLIGHT")
    assert problem["retryable"] is True
    assert problem["idem_key"] == first["idem_key"]
    assert problem["operation_url"]
    same = api.claim(run=run, attempt={"id": "one"})
    assert (same.status_code, same.json()["attempt_number"]) == (201, 1)


def test_the_same_key_with_other_args_is_refused(api):
    run = {"id": "conflict", "agent": "a"}
    api.claimed(run=run, args={"amount": 1})
    problem = assert_problem(
        api.claim(run=run, args={"amount": 2}), 409, "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS"
    )
    assert problem["retryable"] is False


def test_a_wrong_fingerprint_is_refused(api):
    wrong = "jcs-sha256:" + "0" * 64
    assert_problem(api.claim(args_fingerprint=wrong), 422, "FINGERPRINT_MISMATCH")


def test_a_number_never_issued_is_422_and_an_unknown_key_is_404(api):
    claimed = api.claimed()
    high = {**claimed, "attempt_number": 2}
    assert_problem(api.outcome(high, "committed"), 422, "VALIDATION_ERROR")
    unknown = {**claimed, "idem_key": "nobody-has-this"}
    assert_problem(api.outcome(unknown, "committed"), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("outcome", {"outcome": "committed"}),
        ("outcome", {"attempt_number": True, "outcome": "committed"}),
        ("outcome", {"attempt_number": 0, "outcome": "committed"}),
        ("outcome", {"attempt_number": 1, "outcome": "maybe"}),
        ("outcome", {"attempt_number": 1, "outcome": "failed", "permanent": "yes"}),
        ("outcome", {"attempt_number": 1, "outcome": "failed", "error": "boom"}),
        ("sending", {"attempt_number": 1}),
        ("sending", {"send_token": "t"}),
        ("heartbeat", {"attempt_number": 1, "lease_seconds": 0}),
        ("heartbeat", {"attempt_number": 1, "lease_seconds": 3601}),
    ],
)
def test_reports_are_checked_for_shape(api, verb, body):
    key = api.claimed()["idem_key"]
    assert_problem(api.post(f"/operations/{key}/{verb}", body), 422, "VALIDATION_ERROR")


def test_a_permit_is_given_to_one_token(api):
    claimed = api.claimed(fenced=True)
    assert claimed["send_within_ms"] is None
    path = f"/operations/{claimed['idem_key']}/sending"
    body = {"attempt_number": 1, "send_token": "mine"}
    first = api.post(path, body)
    assert (first.status_code, first.json()["send_within_ms"] > 0) == (200, True)
    assert api.post(path, body).json()["send_within_ms"] <= first.json()["send_within_ms"]
    other = api.post(path, {**body, "send_token": "other"})
    assert_problem(other, 409, "SEND_TOKEN_TAKEN")
    api.outcome(claimed, "committed")
    assert_problem(api.post(path, body), 409, "ALREADY_COMMITTED")


def test_cancel_and_close_take_an_empty_body_or_none(api):
    claimed = api.claimed()
    key = claimed["idem_key"]
    assert_problem(api.post(f"/operations/{key}/cancel"), 409, "NOT_CANCELLABLE")
    closed = api.http.post(f"/api/v1/operations/{key}/close")
    assert closed.status_code == 200
    assert closed.json()["operation"]["closed"] is True
    assert_problem(api.post(f"/operations/{key}/close", {"x": 1}), 422, "UNKNOWN_FIELD")


def test_lists_page_by_cursor_and_filter(api):
    other = Api(api.product)
    run = {"id": "listed", "agent": "a"}
    keys = [other.claimed(run=run, step=n, tool="tests.list")["idem_key"] for n in range(5)]
    first = other.get("/operations", run="listed", limit=2).json()
    assert [item["idem_key"] for item in first["items"]] == keys[:-3:-1]
    seen, cursor = [], None
    while True:
        query = {"limit": 2, "tool": "tests.list", **({"cursor": cursor} if cursor else {})}
        page = other.get("/operations", **query).json()
        seen += [item["idem_key"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == keys[::-1]
    assert len(other.get("/operations", state="INVOKED").json()["items"]) == 5
    assert other.get("/operations", state="UNKNOWN").json() == {"items": [], "next_cursor": None}


def test_runs_and_tools_are_read(api):
    other = Api(api.product)
    other.claimed(run={"id": "r/1 ü", "agent": "billing"}, model_output={"say": "charge"})
    listed = other.get("/runs", status="unfinished", agent="billing").json()
    assert [item["run"]["id"] for item in listed["items"]] == ["r/1 ü"]
    found = other.http.get("/api/v1/runs/r%2F1%20%C3%BC").json()
    assert found["steps"][0]["model_output"] == {"say": "charge"}
    assert found["steps"][0]["operations"][0]["state"] == "INVOKED"
    assert_problem(other.get("/runs/nobody"), 404, "NOT_FOUND")
    assert "tests.tool" in {tool["name"] for tool in other.get("/tools").json()["items"]}


def test_waiting_without_since_or_with_another_version_returns_at_once(api):
    claimed = api.claimed()
    path, version = f"/operations/{claimed['idem_key']}", claimed["operation"]["version"]
    for query in ({"wait": 20}, {"wait": 20, "since": version - 1}, {"since": version}):
        began = time.perf_counter()
        assert api.get(path, **query).json()["version"] == version
        assert time.perf_counter() - began < 1


def test_waiting_ends_with_its_time_or_with_the_change(api):
    claimed = api.claimed()
    path, version = f"/operations/{claimed['idem_key']}", claimed["operation"]["version"]
    began = time.perf_counter()
    assert api.get(path, wait=1, since=version).json()["version"] == version
    assert 0.9 < time.perf_counter() - began < 2
    threading.Timer(0.5, api.outcome, (claimed, "committed")).start()
    began = time.perf_counter()
    woken = api.get(path, wait=20, since=version).json()
    assert woken["state"] == "COMMITTED"
    assert time.perf_counter() - began < 1.5


def test_a_wake_up_that_was_never_sent_costs_two_seconds(api):
    claimed = api.claimed()
    path, version = f"/operations/{claimed['idem_key']}", claimed["operation"]["version"]

    def change_unheard():
        api.sql("DELETE FROM operations_waiter")
        api.outcome(claimed, "committed")

    threading.Timer(0.5, change_unheard).start()
    began = time.perf_counter()
    assert api.get(path, wait=20, since=version).json()["state"] == "COMMITTED"
    assert time.perf_counter() - began < 4


def test_waiter_rows_go_when_nobody_waits(api):
    claimed = api.claimed()
    version = claimed["operation"]["version"]
    api.get(f"/operations/{claimed['idem_key']}", wait=0.2, since=version)
    deadline = time.monotonic() + 6
    found = [(1,)]
    while found != [(0,)] and time.monotonic() < deadline:
        time.sleep(0.2)
        found = api.sql(
            "SELECT count(*) FROM operations_waiter w JOIN operations_operation o"
            " ON o.id = w.operation_id WHERE o.idem_key = %s",
            claimed["idem_key"],
        )
    assert found == [(0,)]


@pytest.mark.parametrize("query", [{"wait": "x"}, {"wait": -1}, {"wait": 1, "since": "x"}])
def test_bad_waits_are_refused(api, query):
    key = api.claimed()["idem_key"]
    assert_problem(api.get(f"/operations/{key}", **query), 422, "VALIDATION_ERROR")
