"""The outcome table: what counts, what is evidence only, and what is never dropped."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from operations import states
from operations.models import Event, Payload
from tests.support import claiming
from tests.support.claiming import MAIL, PUT, Agent

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def again(request: Any, **said: Any) -> Any:
    return dataclasses.replace(request, **{"attempt_id": "another", **said})


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
