"""Every row of the outcome table: which reports count, and which are only kept."""

import time
import uuid

from tests.support.runtime import Runtime, problem


def test_the_same_report_twice_changes_nothing(runtime: Runtime) -> None:
    claim = runtime.claim()
    first = runtime.outcome(claim, "committed", result=1, provider_ref="pi_a")
    again = runtime.outcome(claim, "committed", result=1, provider_ref="pi_a")
    assert first.status_code == again.status_code == 200
    assert first.json()["operation"]["version"] == again.json()["operation"]["version"]
    assert again.json()["operation"]["incidents"] == []


def test_another_provider_ref_is_a_duplicate_effect_and_another_result_a_mismatch(
    runtime: Runtime,
) -> None:
    claim = runtime.claim()
    runtime.outcome(claim, "committed", result=1, provider_ref="pi_a")
    other = runtime.outcome(claim, "committed", result=1, provider_ref="pi_b")
    kinds = {incident["kind"] for incident in other.json()["operation"]["incidents"]}
    assert kinds == {"duplicate_effect"}
    changed = runtime.outcome(claim, "committed", result=2, provider_ref="pi_a")
    kinds = {incident["kind"] for incident in changed.json()["operation"]["incidents"]}
    assert kinds == {"duplicate_effect", "effect_mismatch"}
    assert changed.json()["operation"]["result"] == 1


def test_failed_without_effect_none_is_unknown(runtime: Runtime) -> None:
    answer = runtime.outcome(runtime.claim(), "failed", error={"type": "boom"})
    assert answer.json()["operation"]["state"] == "UNKNOWN"


def test_a_retryable_definite_no_effect_frees_the_call(runtime: Runtime) -> None:
    body = runtime.new_call()
    answer = runtime.outcome(
        runtime.claim(body), "failed", effect="none", error={"type": "connect_refused"}
    )
    assert answer.json()["operation"]["state"] == "PENDING"
    second = runtime.claim(body | {"attempt": {"id": "second"}})
    assert (second.status_code, second.json()["attempt_number"]) == (201, 2)


def test_a_negative_counts_only_from_the_right_attempt(runtime: Runtime) -> None:
    claim = runtime.claim(fenced=True, send_token="mine", lease_seconds=30)
    for wrong in ({"attempt_id": "other"}, {"send_token": "not-mine"}, {}):
        kept = runtime.outcome(claim, "failed", effect="none", permanent=True, **wrong)
        assert kept.status_code == 200
        assert kept.json()["superseded"] is True
        assert kept.json()["operation"]["state"] == "INVOKED"
    counted = runtime.outcome(claim, "failed", effect="none", permanent=True, send_token="mine")
    assert counted.json()["operation"]["state"] == "FAILED"


def test_a_number_never_issued_is_refused_and_an_unknown_key_kept(runtime: Runtime) -> None:
    claim = runtime.claim()
    problem(runtime.outcome(claim, "unknown", attempt_number=7), 422, "VALIDATION_ERROR")
    body = runtime.new_call()
    key = uuid.uuid4().hex
    missing = runtime.verb(key, "outcome", attempt_number=1, outcome="committed", result=1)
    assert "kept" in problem(missing, 404, "NOT_FOUND")["detail"]
    late = runtime.claim(body | {"idem_key": key})
    assert late.json()["decision"] == "replay", late.text
    operation = runtime.read(key)
    assert operation["state"] == "COMMITTED"
    assert [incident["kind"] for incident in operation["incidents"]] == ["late_effect"]


def test_a_4xx_on_a_second_send_says_nothing_about_the_first(runtime: Runtime) -> None:
    body = runtime.new_call(tool="tests.put")
    first = runtime.claim(body | {"lease_seconds": 1})
    time.sleep(1.2)
    waits = runtime.claim(body | {"attempt": {"id": "second"}})
    assert waits.json()["decision"] == "await_reconciliation"
    late = runtime.outcome(first, "failed", effect="none", permanent=True, attempt_number=1)
    assert late.json()["operation"]["state"] == "FAILED"


def test_a_positive_is_believed_however_late(runtime: Runtime) -> None:
    body = runtime.new_call()
    claim = runtime.claim(body | {"lease_seconds": 1})
    time.sleep(1.2)
    assert runtime.claim(body | {"attempt": {"id": "2"}}).status_code == 202
    late = runtime.outcome(claim, "committed", result="done", provider_ref="pi_late")
    assert late.json()["operation"]["state"] == "COMMITTED"
    assert late.json()["operation"]["incidents"] == []


def test_a_success_after_a_counted_failure_is_a_late_effect(runtime: Runtime) -> None:
    claim = runtime.claim()
    runtime.outcome(claim, "failed", effect="none", permanent=True)
    late = runtime.outcome(claim, "committed", result=1, provider_ref="pi_z")
    operation = late.json()["operation"]
    assert operation["state"] == "COMMITTED"
    assert "late_effect" in {incident["kind"] for incident in operation["incidents"]}


def test_sending_gives_one_permit_to_one_token(runtime: Runtime) -> None:
    claim = runtime.claim(fenced=True, lease_seconds=20)
    key = claim.json()["idem_key"]
    first = runtime.verb(key, "sending", attempt_number=1, send_token="a")
    assert first.status_code == 200, first.text
    time.sleep(0.3)
    again = runtime.verb(key, "sending", attempt_number=1, send_token="a")
    assert 0 < again.json()["send_within_ms"] < first.json()["send_within_ms"]
    other = runtime.verb(key, "sending", attempt_number=1, send_token="b")
    problem(other, 409, "SEND_TOKEN_TAKEN")
    runtime.outcome(claim, "committed", result=None, send_token="a")
    done = runtime.verb(key, "sending", attempt_number=1, send_token="a")
    problem(done, 409, "ALREADY_COMMITTED")
    problem(runtime.verb(key, "heartbeat", attempt_number=1), 409, "ALREADY_COMMITTED")


def test_a_paused_sender_gets_no_permit_after_its_lease(runtime: Runtime) -> None:
    claim = runtime.claim(fenced=True, lease_seconds=1)
    time.sleep(1.3)
    late = runtime.verb(claim.json()["idem_key"], "sending", attempt_number=1, send_token="a")
    problem(late, 409, "LEASE_LOST")
    beat = runtime.verb(claim.json()["idem_key"], "heartbeat", attempt_number=1)
    problem(beat, 409, "LEASE_LOST")


def test_a_heartbeat_prolongs_the_lease_and_leaves_the_version(runtime: Runtime) -> None:
    claim = runtime.claim(lease_seconds=2)
    beat = runtime.verb(claim.json()["idem_key"], "heartbeat", attempt_number=1, lease_seconds=60)
    assert beat.status_code == 200, beat.text
    assert beat.json()["operation"]["version"] == claim.json()["operation"]["version"]
    time.sleep(3)
    assert runtime.read(claim.json()["idem_key"])["state"] == "INVOKED"


def test_cancel_takes_only_what_is_pending_and_close_ends_the_rest(runtime: Runtime) -> None:
    running = runtime.claim()
    problem(runtime.verb(running.json()["idem_key"], "cancel"), 409, "NOT_CANCELLABLE")
    pending = runtime.claim(fenced=True)
    runtime.outcome(pending, "failed", effect="none")
    cancelled = runtime.verb(pending.json()["idem_key"], "cancel")
    assert cancelled.json()["operation"]["failure"] == "cancelled"
    doubtful = runtime.claim(tool="tests.mail")
    runtime.outcome(doubtful, "unknown")
    closed = runtime.verb(doubtful.json()["idem_key"], "close")
    assert closed.json()["operation"]["state"] == "UNKNOWN"
    assert closed.json()["operation"]["closed"] is True


def test_a_long_poll_returns_at_once_when_the_version_differs(runtime: Runtime) -> None:
    claim = runtime.claim()
    key, version = claim.json()["idem_key"], claim.json()["operation"]["version"]
    began = time.monotonic()
    runtime.read(key, wait=30)
    runtime.read(key, wait=30, since=version - 1)
    assert time.monotonic() - began < 5
    runtime.read(key, wait=1, since=version)
    assert time.monotonic() - began >= 1
