"""Report mode: what a batch keeps, what it answers, and what the operations become."""

import json

import pytest

from operations import ingest, reading
from operations.actors import Runtime
from operations.models import Attempt, Operation, Payload, Record, Run, Step
from tests.support.records import (
    events_of,
    incident_kinds,
    key_of,
    read,
    record,
    report,
    runtime,
    state_of,
    statuses,
)

pytestmark = pytest.mark.django_db


def body_of(kind: str) -> bytes:
    return bytes(Payload.objects.get(kind=kind).body or b"")


@pytest.fixture
def who() -> Runtime:
    return runtime()


def test_an_invoked_record_opens_an_attempt_with_the_catalogues_lease(who: Runtime) -> None:
    answer = report(who, record(args={"amount": 1}))
    assert answer["accepted"] == 1
    document = read(who, key_of())
    assert (document["state"], document["waiting_on"]) == ("INVOKED", "lease")
    assert (document["attempts"], document["attempt_number"], document["mode"]) == (1, 1, "report")
    attempt = Attempt.objects.get()
    assert (attempt.standing, attempt.origin, attempt.lease_seconds) == ("live", "record", 60)
    assert events_of(key_of()) == ["operation.recorded", "operation.invoked"]


def test_a_commit_carries_result_reference_and_args_exactly(who: Runtime) -> None:
    args = '{"b": 25000.0,  "a":"\\u00e9"}'
    text = json.dumps(record("TOOL_COMMITTED", provider_ref="pi_1", effect_status="succeeded"))
    text = text[:-1] + f', "args": {args}, "result": {{"n": 2.50 }}}}'
    report(who, text)
    document = read(who, key_of())
    assert (document["state"], document["provider_ref"]) == ("COMMITTED", "pi_1")
    assert (document["effect_status"], document["result"]) == ("succeeded", {"n": 2.5})
    assert document["incidents"] == []
    assert body_of("args") == args.encode()
    assert body_of("result") == b'{"n": 2.50 }'


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([("TOOL_FAILED", {"effect": "none"})], ("PENDING", None)),
        ([("TOOL_FAILED", {"effect": "none", "permanent": True})], ("FAILED", "provider_declined")),
        ([("TOOL_FAILED", {})], ("UNKNOWN", None)),
        ([("TOOL_UNKNOWN", {})], ("UNKNOWN", None)),
        ([("TOOL_SENDING", {})], ("INVOKED", None)),
        ([("RESULT_DELIVERED", {})], ("PENDING", None)),
        ([("TOOL_INVOKED", {"replayed": True})], ("PENDING", None)),
        ([("TOOL_INVOKED", {}), ("TOOL_COMMITTED", {})], ("COMMITTED", None)),
        ([("TOOL_UNKNOWN", {}), ("TOOL_COMMITTED", {})], ("COMMITTED", None)),
    ],
)
def test_one_attempt_folds(who: Runtime, records: list, expected: tuple) -> None:
    for type_, changes in records:
        report(who, record(type_, **changes))
    assert state_of(who, key_of()) == expected


def test_failed_beside_a_started_attempt_is_unknown(who: Runtime) -> None:
    report(who, record("TOOL_FAILED", effect="none", permanent=True, attempt={"id": "a"}))
    assert state_of(who, key_of())[0] == "FAILED"
    report(who, record("TOOL_INVOKED", attempt={"id": "b"}))
    assert state_of(who, key_of()) == ("UNKNOWN", None)
    assert incident_kinds(who) == [("permanent_failure", key_of())]


def test_a_lapse_is_no_evidence(who: Runtime) -> None:
    from operations import sweeps

    report(who, record())
    Operation.objects.update(lease_expires_at="2020-01-01T00:00:00Z", waiting_until=None)
    assert sweeps.run_once()["lapsed"] == 1
    assert state_of(who, key_of())[0] == "UNKNOWN"
    report(who, record("TOOL_SENDING"))
    assert state_of(who, key_of())[0] == "UNKNOWN"
    report(who, record("TOOL_FAILED", effect="none"))
    assert state_of(who, key_of()) == ("PENDING", None)


def test_the_same_record_is_a_duplicate_however_it_is_spelled(who: Runtime) -> None:
    said = record("TOOL_COMMITTED", args={"a": 1, "b": 2})
    report(who, said)
    other = json.dumps(dict(reversed(said.items())), indent=2)
    answer = report(who, said, other)
    assert statuses(answer) == [("duplicate", None), ("duplicate", None)]
    assert answer["results"][0]["idem_key"] == key_of()
    assert Record.objects.count() == 1


def test_a_reused_record_id_is_kept_and_is_an_incident(who: Runtime) -> None:
    first, other = record(record_id="r1"), record("TOOL_COMMITTED", record_id="r1")
    report(who, first)
    assert statuses(report(who, other)) == [("incident", "RECORD_ID_REUSED")]
    assert statuses(report(who, other)) == [("duplicate", None)]
    assert Record.objects.count() == 2
    assert incident_kinds(who) == [("record_id_reused", "")]
    assert state_of(who, key_of())[0] == "COMMITTED"  # it is evidence all the same
    kept = ingest.read_record(who.scope, "r1")
    assert kept is not None
    assert kept["status"] == "accepted"


def test_two_keys_for_one_call_collide(who: Runtime) -> None:
    report(who, record(idem_key="k1"))
    assert statuses(report(who, record(idem_key="k2"))) == [("incident", "KEY_COLLISION")]
    other = record(idem_key="k1", call="c2")
    assert statuses(report(who, other)) == [("incident", "KEY_COLLISION")]
    assert Operation.objects.count() == 1
    assert incident_kinds(who) == [("args_conflict", "k1")]


def test_two_executions_of_one_step_are_a_duplicate_effect(who: Runtime) -> None:
    """R16: the attempt's number is never trusted for dedupe."""
    for worker in ("w1", "w2"):
        attempt = {"id": worker, "worker": worker}
        report(who, record(attempt=attempt), record("TOOL_COMMITTED", attempt=attempt))
    document = read(who, key_of())
    assert (document["state"], document["attempts"]) == ("COMMITTED", 2)
    assert [item["kind"] for item in document["incidents"]] == ["duplicate_effect"]


def test_a_doubt_beside_a_commit_is_withdrawn_when_it_ends(who: Runtime) -> None:
    report(who, record(attempt={"id": "a"}), record("TOOL_COMMITTED", attempt={"id": "b"}))
    assert incident_kinds(who) == [("possible_duplicate", key_of())]
    report(who, record("TOOL_FAILED", effect="none", attempt={"id": "a"}))
    assert incident_kinds(who) == []
    assert read(who, key_of())["incidents"] == []


def test_failed_is_never_answered_as_done(who: Runtime) -> None:
    """R15: only COMMITTED is answered from store."""
    report(who, record("TOOL_FAILED", effect="none", permanent=True))
    assert read(who, key_of())["decision"] == "refused"


def test_runs_are_made_described_and_ended(who: Runtime) -> None:
    started = {"id": "run_1", "agent": "renewals", "agent_version": "2", "trigger": "t1"}
    report(who, record("TOOL_FAILED", effect="none"))
    report(
        who,
        {"record_id": "s", "type": "RUN_STARTED", "run": started},
        {"record_id": "f", "type": "RUN_FINISHED", "run": {"id": "run_1"}},
    )
    run = Run.objects.get()
    assert (run.agent, run.agent_version, run.status) == ("renewals", "2", "finished")
    assert run.finished_at is not None
    # What could still be tried is over, and what comes later is closed from the start.
    assert state_of(who, key_of()) == ("FAILED", "cancelled")
    report(who, record("TOOL_FAILED", call="late", effect="none"))
    assert state_of(who, key_of("late")) == ("FAILED", "cancelled")


def test_a_trigger_of_another_run_does_not_stop_a_record(who: Runtime) -> None:
    for run_id in ("r1", "r2"):
        report(
            who,
            {"record_id": run_id, "type": "RUN_STARTED", "run": {"id": run_id, "trigger": "t"}},
        )
    assert Run.objects.count() == 2


def test_another_version_in_a_run_is_flagged(who: Runtime) -> None:
    for version in ("1", "2"):
        report(who, record(run={"id": "run_1", "agent": "a", "code_version": version}))
    assert incident_kinds(who) == [("version_changed", "")]


def test_steps_keep_what_the_model_said(who: Runtime) -> None:
    step = {"run": {"id": "run_1"}, "step": 1}
    report(
        who,
        {"record_id": "l", "type": "LLM_RESPONDED", **step, "model_output": {"text": "charge"}},
        {"record_id": "d", "type": "STEP_COMPLETED", **step},
    )
    found = Step.objects.get()
    assert bytes(found.model_output or b"") == b'{"text": "charge"}'
    assert found.completed_at is not None


def test_a_delivered_result_closes_the_last_window(who: Runtime) -> None:
    report(who, record("TOOL_COMMITTED"))
    assert read(who, key_of())["possible_windows"] == ["W4"]
    report(who, record("RESULT_DELIVERED"))
    assert read(who, key_of())["possible_windows"] == []


def test_another_namespace_sees_nothing(who: Runtime) -> None:
    report(who, record(record_id="mine"))
    other = runtime(namespace="other")
    assert ingest.read_record(other.scope, "mine") is None
    report(other, record("TOOL_COMMITTED", record_id="mine"))
    assert state_of(who, key_of())[0] == "INVOKED"
    assert state_of(other, key_of())[0] == "COMMITTED"
    items, _ = reading.list_operations(reading.OperationQuery(scope=who.scope))
    assert len(items) == 1


def test_amounts_are_read_from_args(who: Runtime) -> None:
    report(who, record("TOOL_COMMITTED"))
    report(who, record(args={"amount": 5}))
    assert read(who, key_of())["args_fingerprint"] is not None
