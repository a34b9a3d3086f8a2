"""Every row of the outcome table: what counts, what is evidence only, and what is never dropped."""

import dataclasses
import json
import uuid
from datetime import timedelta
from typing import Any

import pytest

from operations import ingest, leases, outcomes, states
from operations.claims import OutcomeReport
from operations.models import Event, InboxItem, Payload
from tests.support import claiming
from tests.support.claiming import MAIL, PUT, SAFE, Agent, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def again(request: Any, **said: Any) -> Any:
    return dataclasses.replace(request, **{"attempt_id": "another", **said})


# Positive


def test_a_success_commits_and_keeps_the_result(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    done = agent.report(
        granted, "committed", result=b'{"n":1.50}', provider_ref="pi_1", effect_status="succeeded"
    )
    row = agent.row(granted)
    assert (done["superseded"], done["operation"]["state"]) == (False, "COMMITTED")
    assert (row.provider_ref, row.effect_status, row.waiting_on) == ("pi_1", "succeeded", None)
    assert done["operation"]["result"] == {"n": 1.5}
    assert bytes(Payload.objects.get(operation=row, kind="result").body) == b'{"n":1.50}'
    assert row.attempt_set.get().standing == "committed"
    told = Event.objects.get(operation=row, type="operation.committed").data
    assert "n" not in told
    assert told["provider_ref"] == "pi_1"


def test_the_same_report_again_changes_nothing(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    said: dict[str, Any] = {"result": b'{"a":1,"b":2}', "provider_ref": "pi_1"}
    first = agent.report(granted, "committed", **said)
    for spelling in (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1.0 }'):
        repeated = agent.report(granted, "committed", **said | {"result": spelling})
        assert repeated == first
    assert agent.incidents(granted) == []


def test_a_commit_believes_any_sender(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, send_token="secret")
    done = agent.report(
        granted, "committed", attempt_id="whoever", runtime=agent.another_key(), result=b"1"
    )
    assert (done["operation"]["state"], done["superseded"]) == ("COMMITTED", False)


def test_another_object_is_a_duplicate_and_another_result_a_mismatch(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    agent.report(granted, "committed", result=b"1", provider_ref="pi_a")
    agent.report(granted, "committed", result=b"1", provider_ref="pi_b")
    assert agent.incidents(granted) == ["duplicate_effect"]
    done = agent.report(granted, "committed", result=b"2", provider_ref="pi_a")
    assert agent.incidents(granted) == ["duplicate_effect", "effect_mismatch"]
    assert (done["operation"]["result"], done["operation"]["provider_ref"]) == (1, "pi_a")
    assert done["operation"]["state"] == "COMMITTED"


def test_what_the_first_report_left_out_is_added(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    agent.report(granted, "committed", result=b"1")
    done = agent.report(
        granted, "committed", result=b"1", provider_ref="pi_a", effect_status="succeeded"
    )
    assert (done["operation"]["provider_ref"], done["superseded"]) == ("pi_a", False)
    assert agent.incidents(granted) == []
    later = agent.report(granted, "committed", provider_ref="pi_a", effect_status="refunded")
    assert (later["operation"]["state"], later["operation"]["effect_status"]) == (
        "COMMITTED",
        "refunded",
    )
    assert later["operation"]["version"] == done["operation"]["version"] + 1


@pytest.mark.parametrize("failed_first", [True, False])
def test_a_success_against_what_was_concluded_is_a_late_effect(
    agent: Agent, failed_first: bool
) -> None:
    granted = agent.claim(tool=MAIL)
    agent.nothing_happened(granted, permanent=failed_first)
    before = agent.row(granted).state
    assert before == (states.FAILED if failed_first else states.PENDING)
    done = agent.report(granted, "committed", result=b"1")
    assert (done["operation"]["state"], done["operation"]["failure"]) == ("COMMITTED", None)
    assert "late_effect" in agent.incidents(granted)
    event = Event.objects.filter(operation=agent.row(granted), to_state="COMMITTED").get()
    assert (event.type, event.from_state) == ("operation.late_effect", before)


def test_two_successes_without_dedupe_are_two_effects_and_with_it_one(agent: Agent) -> None:
    for tool, expected in ((MAIL, ["duplicate_effect"]), (PUT, [])):
        request = agent.call(tool=tool)
        first = agent.claim(request)
        agent.report(first, "unknown")
        claiming.age(agent.row(first), 7200)
        claiming.release(agent.row(first), "signed" if tool == MAIL else "replay")
        second = agent.claim(again(request))
        agent.report(second, "committed", result=b"1")
        late = agent.report(first, "committed", result=b"1")
        assert late["superseded"] is True
        found = [kind for kind in agent.incidents(first) if kind != "possible_duplicate"]
        assert found == expected, tool
        assert agent.standings(first) == (
            ["committed", "committed"] if tool == MAIL else ["covered", "committed"]
        )


# Negative


def test_failed_without_effect_none_is_unknown(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    done = agent.report(granted, "failed", permanent=True, error={"type": "boom"})
    assert done["operation"]["state"] == "UNKNOWN"
    assert agent.standings(granted) == ["in_doubt"]


def test_a_retryable_negative_frees_the_call(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    error = {"type": "connect_refused", "message": "no\x00t", "http_status": 503}
    done = agent.nothing_happened(granted, error=error)
    row = agent.row(granted)
    assert (done["operation"]["state"], done["superseded"]) == ("PENDING", False)
    assert (row.waiting_on, row.lease_expires_at) == ("runtime", None)
    attempt = row.attempt_set.get()
    assert (attempt.standing, attempt.http_status) == ("no_effect", 503)
    assert Payload.objects.filter(operation=row, kind="error").count() == 1
    repeated = agent.nothing_happened(granted, error=error)
    assert repeated == done


def test_a_permanent_negative_fails_for_good_and_is_an_incident(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    done = agent.nothing_happened(granted, permanent=True)
    assert (done["operation"]["state"], done["operation"]["failure"]) == (
        "FAILED",
        "provider_declined",
    )
    assert agent.incidents(granted) == ["permanent_failure"]


def test_the_catalogue_may_allow_a_permanent_failure_to_be_tried_again(agent: Agent) -> None:
    claiming.publish({"name": MAIL, "attempts_permanent": 1})
    request = agent.call(tool=MAIL)
    first = agent.nothing_happened(agent.claim(request), permanent=True)
    assert first["operation"]["state"] == "PENDING"
    second = agent.nothing_happened(agent.claim(again(request)), permanent=True)
    assert second["operation"]["failure"] == "provider_declined"


def test_the_last_attempts_negative_exhausts(agent: Agent) -> None:
    request = agent.call(tool=PUT)
    for number in range(3):
        granted = agent.claim(again(request, attempt_id=str(number)))
        done = agent.nothing_happened(granted)
    assert (done["operation"]["state"], done["operation"]["failure"]) == (
        "FAILED",
        "attempts_exhausted",
    )
    assert agent.incidents(granted) == ["attempts_exhausted"]


@pytest.mark.parametrize(
    "wrong",
    [{"attempt_id": "other"}, {"attempt_id": None}, {"send_token": "not mine"}, {}, {"key": True}],
)
def test_a_negative_counts_only_from_the_very_sender(agent: Agent, wrong: dict[str, Any]) -> None:
    granted = agent.claim(tool=MAIL, send_token="mine")
    said: dict[str, Any] = {"permanent": True, **wrong}
    if said.pop("key", False):
        said |= {"runtime": agent.another_key(), "send_token": "mine"}
    done = agent.nothing_happened(granted, **said)
    assert (done["superseded"], done["operation"]["state"]) == (True, "INVOKED")
    assert Payload.objects.filter(operation=agent.row(granted), kind="evidence").count() == 1
    version = done["operation"]["version"]
    assert agent.nothing_happened(granted, **said | {"permanent": True})["superseded"]
    counted = agent.nothing_happened(granted, permanent=True, send_token="mine")
    assert (counted["operation"]["state"], counted["superseded"]) == ("FAILED", False)
    assert counted["operation"]["version"] == version + 2  # failed, and its incident


def test_a_negative_beside_a_doubt_leaves_the_doubt(agent: Agent) -> None:
    request = agent.call(tool=PUT)
    first = agent.claim(request)
    agent.report(first, "unknown")
    claiming.release(agent.row(first), "replay")
    second = agent.claim(again(request))
    done = agent.nothing_happened(second, permanent=True, error={"http_status": 429})
    assert (done["operation"]["state"], done["superseded"]) == ("UNKNOWN", False)
    assert agent.standings(first) == ["in_doubt", "no_effect"]
    settled = agent.nothing_happened(first, permanent=True)
    assert (settled["operation"]["state"], settled["superseded"]) == ("FAILED", False)


def test_a_saved_failure_that_the_provider_replays_ends_every_doubt(agent: Agent) -> None:
    request = agent.call(tool=PUT)
    first = agent.claim(request)
    agent.report(first, "unknown")
    claiming.release(agent.row(first), "replay")
    second = agent.claim(again(request))
    error = {"type": "card_declined", "http_status": 402, "replayed": True}
    done = agent.nothing_happened(second, permanent=True, error=error)
    assert (done["operation"]["state"], done["operation"]["failure"]) == (
        "FAILED",
        "provider_declined",
    )
    assert agent.standings(first) == ["no_effect", "no_effect"]


def test_a_tool_without_a_key_has_no_saved_failures(agent: Agent) -> None:
    request = agent.call(tool=MAIL)
    first = agent.claim(request)
    agent.report(first, "unknown")
    claiming.age(agent.row(first), 7200)
    claiming.release(agent.row(first), "signed")
    second = agent.claim(again(request))
    done = agent.nothing_happened(second, permanent=True, error={"replayed": True})
    assert done["operation"]["state"] == "UNKNOWN"


def test_a_late_negative_counts_if_no_other_attempt_is_in_doubt(agent: Agent) -> None:
    for permanent, expected in ((True, "FAILED"), (False, "PENDING")):
        granted = agent.claim(tool=MAIL)
        claiming.let_lapse(agent.row(granted))
        claiming.sweep()
        assert agent.row(granted).state == states.UNKNOWN
        done = agent.nothing_happened(granted, permanent=permanent)
        assert (done["operation"]["state"], done["superseded"]) == (expected, False)
        last = Event.objects.filter(operation=agent.row(granted), from_state="UNKNOWN").get()
        assert last.type == ("operation.reconciled" if permanent else "operation.not_sent")


def test_a_late_negative_beside_another_doubt_is_evidence_only(agent: Agent) -> None:
    request = agent.call(tool=PUT)
    first = agent.claim(request)
    agent.report(first, "unknown")
    claiming.release(agent.row(first), "replay")
    second = agent.claim(again(request))
    agent.report(second, "unknown")
    done = agent.nothing_happened(second, permanent=True)
    assert (done["operation"]["state"], done["superseded"]) == ("UNKNOWN", True)
    assert agent.standings(first) == ["in_doubt", "in_doubt"]


def test_a_dead_attempts_negative_does_not_touch_the_live_one(agent: Agent) -> None:
    request = agent.call(tool=PUT)
    first = agent.claim(request)
    agent.report(first, "unknown")
    claiming.release(agent.row(first), "replay")
    second = agent.claim(again(request))
    done = agent.nothing_happened(first, permanent=True)
    assert (done["operation"]["state"], done["superseded"]) == ("INVOKED", True)
    assert agent.standings(first) == ["no_effect", "live"]
    assert agent.sending(second, "t")["send_within_ms"] > 0


# Unknown


def test_unknown_needs_only_the_number(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, send_token="mine")
    done = agent.report(granted, "unknown", attempt_id=None, runtime=agent.another_key())
    assert (done["operation"]["state"], done["superseded"]) == ("UNKNOWN", False)
    assert done["operation"]["possible_windows"] == ["W2", "W3"]
    assert done["operation"]["waiting_on"] == "look"
    assert agent.report(granted, "unknown") == done


def test_unknown_of_an_attempt_that_counted_as_not_sent_brings_the_doubt_back(
    agent: Agent,
) -> None:
    granted = agent.claim(tool=MAIL, fenced=True)
    claiming.let_lapse(agent.row(granted))
    claiming.sweep()
    assert agent.row(granted).state == states.PENDING
    done = agent.report(granted, "unknown")
    assert (done["operation"]["state"], done["superseded"]) == ("UNKNOWN", False)
    attempt = agent.row(granted).attempt_set.get()
    assert (attempt.standing, attempt.fenced) == ("in_doubt", False)
    assert attempt.emits_until == attempt.lease_expires_at + timedelta(seconds=85)


def test_unknown_after_a_success_is_evidence_only(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    agent.report(granted, "committed")
    done = agent.report(granted, "unknown")
    assert (done["operation"]["state"], done["superseded"]) == ("COMMITTED", True)


# Keys and numbers that were never issued


def test_a_number_never_issued_is_refused_and_a_positive_one_kept(agent: Agent) -> None:
    request = agent.call(tool=MAIL, fenced=True)
    granted = agent.claim(request)
    for outcome in ("unknown", "committed"):
        with refused("VALIDATION_ERROR") as error:
            agent.report(granted, outcome, attempt_number=7)
        assert error.extra["pointer"] == "/attempt_number"
    assert agent.row(granted).state == states.INVOKED
    assert InboxItem.objects.get(idem_key=granted.body["idem_key"]).source == (
        "outcome:never-issued"
    )
    claiming.let_lapse(agent.row(granted))
    answer = agent.claim(again(request))
    assert answer.body["decision"] == "replay"
    assert agent.row(granted).state == states.COMMITTED


def test_evidence_for_an_unknown_key_is_kept_and_read_by_its_claim(agent: Agent) -> None:
    key = uuid.uuid4().hex
    report = OutcomeReport(1, "committed", result=b'{"ok":1}', provider_ref="pi_1")
    for _ in range(2):
        with refused("NOT_FOUND") as error:
            outcomes.report_outcome(agent.runtime, key, report)
    assert "kept" in error.detail
    assert InboxItem.objects.filter(idem_key=key).count() == 1
    answer = agent.claim(idem_key=key, tool=MAIL)
    assert (answer.status, answer.body["decision"]) == (200, "replay")
    assert (answer.body["result"], answer.body["provider_ref"]) == ({"ok": 1}, "pi_1")
    assert agent.incidents(key) == ["late_effect"]


@pytest.mark.parametrize("outcome", ["unknown", "failed"])
def test_any_other_evidence_for_an_unknown_key_is_a_doubt(agent: Agent, outcome: str) -> None:
    key = uuid.uuid4().hex
    with refused("NOT_FOUND"):
        report = OutcomeReport(1, outcome, effect="none")
        outcomes.report_outcome(agent.runtime, key, report)
    answer = agent.claim(idem_key=key, tool=MAIL)
    assert answer.body["decision"] == "await_reconciliation"
    assert agent.standings(key) == ["in_doubt"]
    assert agent.row(key).attempts == 0


def test_evidence_of_a_call_that_nobody_approved_is_an_incident(agent: Agent) -> None:
    live = Agent("live")
    key = uuid.uuid4().hex
    with refused("NOT_FOUND"):
        outcomes.report_outcome(live.runtime, key, OutcomeReport(1, "committed"))
    answer = live.claim(idem_key=key, tool=MAIL)
    assert answer.body["decision"] == "replay"
    assert live.incidents(key) == ["executed_without_approval", "late_effect"]


def test_a_record_without_a_call_id_makes_the_claim_of_its_double_wait(agent: Agent) -> None:
    request = agent.call(tool=MAIL)
    told = {
        "record_id": "r1", "type": "TOOL_INVOKED", "run": {"id": request.run_id, "agent": "a"},
        "step": 1, "tool": MAIL, "args": request.args,
    }  # fmt: skip
    ingest.ingest_records([json.dumps(told)], agent.runtime)
    answer = agent.claim(request)
    assert answer.body["decision"] == "await_reconciliation", answer.body
    assert agent.standings(answer) == ["in_doubt"]
    other = again(request, tool_call_id="c2", args={"amount": 2}, args_raw=b'{"amount": 2}')
    assert agent.claim(other).status == 201


def test_an_invoked_record_lapses_like_a_lease_and_its_claim_waits(agent: Agent) -> None:
    request = agent.call(tool=MAIL)
    told = {
        "record_id": "r1", "type": "TOOL_INVOKED", "run": {"id": request.run_id, "agent": "a"},
        "step": 1, "tool_call_id": "call_1", "tool": MAIL, "args": request.args,
        "attempt": {"id": "told"},
    }  # fmt: skip
    ingest.ingest_records([json.dumps(told)], agent.runtime)
    with refused("ATTEMPT_IN_FLIGHT") as error:
        agent.claim(request)
    key = error.extra["idem_key"]
    claiming.let_lapse(agent.row(key))
    assert claiming.sweep()["lapsed"] == 1
    assert agent.row(key).state == states.UNKNOWN
    assert agent.claim(request).body["decision"] == "await_reconciliation"


def test_evidence_that_crossed_with_its_claim_is_found_by_the_sweep(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    body = b'{"attempt_number":1,"outcome":"committed","provider_ref":"pi_1"}'
    item = InboxItem.objects.create(
        environment="test", namespace=agent.namespace, idem_key=granted.body["idem_key"],
        source="outcome", body=body, sha256=b"x" * 32,
    )  # fmt: skip
    item.received_at -= timedelta(seconds=5)
    item.save()
    assert claiming.sweep()["evidence_matched"] == 1
    assert agent.row(granted).state == states.COMMITTED


# A tool that only reads


def test_nothing_about_a_tool_that_only_reads_is_a_duplicate(agent: Agent) -> None:
    request = agent.call(tool=SAFE)
    first = agent.claim(request)
    agent.report(first, "unknown")
    second = agent.claim(again(request))
    agent.report(second, "committed", result=b"1")
    agent.report(first, "committed", result=b"2")
    assert agent.incidents(first) == []


# Permit and heartbeat


def test_sending_gives_one_permit_to_one_token(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, fenced=True, lease_seconds=30)
    first = agent.sending(granted, "mine")
    assert first["send_within_ms"] == 10_000
    assert first["operation"]["version"] == granted.body["operation"]["version"] + 1
    repeated = agent.sending(granted, "mine")
    assert repeated["send_within_ms"] < 10_000
    assert repeated["operation"]["version"] == first["operation"]["version"]
    with refused("SEND_TOKEN_TAKEN"):
        agent.sending(granted, "not mine")


def test_sending_is_refused_once_it_is_over(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, fenced=True)
    with refused("VALIDATION_ERROR"):
        agent.sending(granted, "t", number=2)
    agent.report(granted, "committed")
    for ask in (
        lambda: agent.sending(granted, "t"),
        lambda: leases.heartbeat(agent.runtime, granted.body["idem_key"], 1),
    ):
        with refused("ALREADY_COMMITTED"):
            ask()
    with refused("NOT_FOUND"):
        leases.sending(agent.runtime, "nobody-claimed-this", 1, "t")


def test_a_heartbeat_prolongs_the_lease_and_is_no_event(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, lease_seconds=10)
    before = agent.row(granted).attempt_set.get()
    beat = leases.heartbeat(agent.runtime, granted.body["idem_key"], 1, 600)
    row = agent.row(granted)
    after = row.attempt_set.get()
    assert row.version == granted.body["operation"]["version"]
    assert (row.lease_expires_at - row.updated_at).total_seconds() > 599
    assert row.waiting_until == row.lease_expires_at == after.lease_expires_at
    assert beat["operation"]["waiting_until"] == beat["lease_expires_at"]
    assert (
        after.emits_until - before.emits_until == after.lease_expires_at - before.lease_expires_at
    )


def test_no_heartbeat_leads_beyond_an_hour(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, lease_seconds=10)
    claiming.age(agent.row(granted), 3000)
    leases.heartbeat(agent.runtime, granted.body["idem_key"], 1, 3600)
    attempt = agent.row(granted).attempt_set.get()
    assert attempt.lease_expires_at == attempt.granted_at + timedelta(hours=1)


def test_a_heartbeat_after_the_lease_is_lease_lost(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL)
    claiming.let_lapse(agent.row(granted))
    with refused("LEASE_LOST"):
        leases.heartbeat(agent.runtime, granted.body["idem_key"], 1, 60)
    assert agent.row(granted).state == states.UNKNOWN
