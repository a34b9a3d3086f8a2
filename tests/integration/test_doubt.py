"""Doubt belongs to an attempt: lapses, permits, releases, settling, and lives of a key."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from operations import closing, rows, settling, states
from operations.models import Event, Operation
from tests.support import claiming
from tests.support.claiming import MAIL, PUT, SAFE, Agent, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def again(request: Any, **said: Any) -> Any:
    return dataclasses.replace(request, **{"attempt_id": "another", **said})


def doubtful(agent: Agent, tool: str = MAIL, **said: Any) -> tuple[Any, Any]:
    """A call whose first attempt is in doubt: its request and its answer."""
    request = agent.call(tool=tool, **said)
    granted = agent.claim(request)
    agent.report(granted, "unknown")
    return request, granted


@pytest.mark.parametrize(
    ("said", "state", "standing"),
    [
        ({"fenced": True}, "PENDING", "not_sent"),
        ({"send_token": "t"}, "UNKNOWN", "in_doubt"),
        ({}, "UNKNOWN", "in_doubt"),
    ],
)
def test_a_lease_that_runs_out_means_what_its_attempt_could_have_done(
    agent: Agent, said: dict[str, Any], state: str, standing: str
) -> None:
    granted = agent.claim(tool=MAIL, **said)
    claiming.let_lapse(agent.row(granted))
    assert claiming.sweep()["lapsed"] == 1
    assert (agent.row(granted).state, agent.standings(granted)) == (state, [standing])
    assert claiming.sweep()["lapsed"] == 0
    assert Event.objects.filter(operation=agent.row(granted)).latest("id").actor == "system:sweeper"


def test_a_permit_for_an_unfenced_attempt_fences_nothing(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, lease_seconds=60)
    unfenced = claiming.t_emit(agent.row(granted))
    agent.sending(granted, "t")
    assert claiming.t_emit(agent.row(granted)) == unfenced


def test_t_emit_is_the_permit_plus_the_clients_patience(agent: Agent) -> None:
    claiming.publish({"name": MAIL, "client_timeout_seconds": 30, "client_tries": 2})
    fenced = agent.claim(tool=MAIL, fenced=True)
    assert claiming.t_emit(agent.row(fenced)) is None
    agent.sending(fenced, "t")
    attempt = agent.row(fenced).attempt_set.get()
    assert attempt.permit_until == attempt.permit_at + timedelta(seconds=10)
    assert claiming.t_emit(agent.row(fenced)) == attempt.permit_at + timedelta(seconds=10 + 60)
    unfenced = agent.row(agent.claim(tool=MAIL))
    assert claiming.t_emit(unfenced) == unfenced.lease_expires_at + timedelta(seconds=60 + 5)


def test_a_paused_sender_is_refused_after_its_lease(agent: Agent) -> None:
    request = agent.call(tool=MAIL, fenced=True)
    first = agent.claim(request)
    claiming.let_lapse(agent.row(first))
    with refused("LEASE_LOST"):
        agent.sending(first, "t")
    second = agent.claim(again(request, send_token="other"))
    assert second.body["attempt_number"] == 2
    with refused("LEASE_LOST"):
        agent.sending(first, "t")


def test_a_permit_never_outlives_its_lease_and_never_grows(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, fenced=True, lease_seconds=3)
    assert agent.sending(granted, "t")["send_within_ms"] <= 3_000
    claiming.age(agent.row(granted), 60)
    assert agent.sending(granted, "t")["send_within_ms"] == 0


def test_no_permit_once_the_key_is_about_to_be_forgotten(agent: Agent) -> None:
    request, first = doubtful(agent, PUT, send_token="a")
    row = agent.row(first)
    assert row.key_expires_at == row.first_sent_at + timedelta(hours=24)
    claiming.release(row, "replay")
    second = agent.claim(again(request, send_token=None, fenced=True))
    assert second.body["first_sent_at"] is not None
    claiming.age(agent.row(first), 23 * 3600 - 30)
    assert agent.sending(second, "b")["send_within_ms"] > 0
    agent.nothing_happened(second, send_token="b")
    claiming.release(agent.row(first), "replay")
    third = agent.claim(again(request, attempt_id="3", send_token=None, fenced=True))
    claiming.age(agent.row(first), 60)
    with refused("KEY_EXPIRING"):
        agent.sending(third, "c")


def test_safe_and_replay_ask_for_their_class(agent: Agent) -> None:
    for tool, reason in ((MAIL, "safe"), (MAIL, "replay"), (SAFE, "replay"), (PUT, "safe")):
        _, granted = doubtful(agent, tool)
        with refused("NOT_RELEASABLE"):
            claiming.release(agent.row(granted), reason)


def test_a_replay_release_keeps_the_doubt_and_its_commit_ends_it(agent: Agent) -> None:
    request, first = doubtful(agent, PUT)
    claiming.release(agent.row(first), "replay")
    row = agent.row(first)
    assert (row.state, row.release_reason, agent.standings(first)) == (
        "PENDING",
        "replay",
        ["in_doubt"],
    )
    assert row.waiting_until == row.key_expires_at - timedelta(hours=1)
    second = agent.claim(again(request))
    assert second.body["first_sent_at"] is not None
    agent.report(second, "committed", provider_ref="pi_1")
    assert agent.standings(first) == ["covered", "committed"]
    assert agent.incidents(first) == []


def test_a_replay_whose_window_has_closed_is_in_doubt_again(agent: Agent) -> None:
    request, first = doubtful(agent, PUT)
    claiming.release(agent.row(first), "replay")
    claiming.age(agent.row(first), 24 * 3600)
    answer = agent.claim(again(request))
    assert answer.body["decision"] == "await_reconciliation"
    assert agent.row(first).state == states.UNKNOWN
    with refused("NOT_RELEASABLE"):
        claiming.release(agent.row(first), "replay")


def test_the_sweep_closes_a_replay_window_too(agent: Agent) -> None:
    _, first = doubtful(agent, PUT)
    claiming.release(agent.row(first), "replay")
    claiming.age(agent.row(first), 24 * 3600)
    Operation.objects.filter(id=agent.row(first).id).update(
        waiting_until=agent.row(first).created_at
    )
    assert claiming.sweep()["windows_closed"] == 1
    assert agent.row(first).state == states.UNKNOWN


def test_absence_of_an_unsafe_call_needs_a_proving_class_and_a_fence(agent: Agent) -> None:
    _, unfenced = doubtful(agent, MAIL)
    for proof in ("C", "E", "B"):
        with refused("NOT_RELEASABLE"):
            claiming.release(agent.row(unfenced), "absent", proved_by_class=proof)
    claiming.release(agent.row(unfenced), "absent", proved_by_class="T")
    assert agent.standings(unfenced) == ["no_effect"]
    _, fenced = doubtful(agent, MAIL, send_token="t")
    claiming.release(agent.row(fenced), "absent", proved_by_class="B")
    assert agent.row(fenced).state == states.PENDING


def test_a_signed_release_waits_for_the_last_bytes_and_keeps_the_doubt(agent: Agent) -> None:
    request, first = doubtful(agent, MAIL, send_token="t")
    with refused("NOT_RELEASABLE"):
        claiming.release(agent.row(first), "signed")
    claiming.age(agent.row(first), 10 + 80 + 900 + 1)
    claiming.release(agent.row(first), "signed")
    assert agent.standings(first) == ["in_doubt"]
    second = agent.claim(again(request))
    agent.report(second, "committed", provider_ref="pi_1")
    assert agent.standings(first) == ["in_doubt", "committed"]
    assert agent.incidents(first) == ["possible_duplicate"]


@pytest.mark.parametrize("kind", ["committed", "in_flight", "conflict", "duplicate"])
@pytest.mark.parametrize(("tool", "reason"), [(PUT, "replay"), (MAIL, "signed")])
def test_nothing_is_released_against_what_was_seen(
    agent: Agent, kind: str, tool: str, reason: str
) -> None:
    _, granted = doubtful(agent, tool)
    row = agent.row(granted)
    claiming.age(row, 7200)
    with rows.hot_cursor() as cur:
        settling.set_verdict(cur, row.id, {"kind": kind}, actor="system:reconciler")
    with refused("NOT_RELEASABLE"):
        claiming.release(agent.row(granted), reason)


def test_a_verdict_is_an_event_only_where_its_kind_changes(agent: Agent) -> None:
    _, granted = doubtful(agent)
    row = agent.row(granted)
    with rows.hot_cursor() as cur:
        for kind, expected in (("waiting", 1), ("waiting", 1), ("needs_human", 2)):
            settling.set_verdict(
                cur, row.id, {"kind": kind}, actor="system:reconciler", waiting_on="person"
            )
            assert agent.row(granted).version == row.version + expected
    assert agent.row(granted).waiting_on == "person"


def test_a_closed_intent_is_never_released(agent: Agent) -> None:
    _, granted = doubtful(agent, PUT)
    closing.close(agent.runtime, granted.body["idem_key"])
    with refused("NOT_RELEASABLE"):
        claiming.release(agent.row(granted), "replay")
    _, reads = doubtful(agent, SAFE)
    closing.close(agent.runtime, reads.body["idem_key"])
    with refused("NOT_RELEASABLE"):
        claiming.release(agent.row(reads), "safe")


def settle(op: Operation, verb: str, actor: str, **said: Any) -> None:
    with rows.hot_cursor() as cur:
        getattr(settling, verb)(cur, op.id, actor=actor, **said)


def test_a_look_that_finds_the_effect_commits_from_any_state(agent: Agent) -> None:
    fenced = agent.claim(tool=MAIL, send_token="t")
    settle(agent.row(fenced), "settle_committed", "system:reconciler", provider_ref="pi_1")
    assert (agent.row(fenced).state, agent.row(fenced).provider_ref) == ("COMMITTED", "pi_1")
    with refused("ALREADY_COMMITTED"):
        agent.sending(fenced, "t")
    _, unknown = doubtful(agent)
    settle(agent.row(unknown), "settle_committed", "user:1", provider_ref=None)
    assert agent.standings(unknown) == ["committed"]
    settle(agent.row(unknown), "settle_committed", "system:reconciler", provider_ref="pi_2")
    settle(agent.row(unknown), "settle_committed", "system:reconciler", provider_ref="pi_3")
    assert agent.incidents(unknown) == ["duplicate_effect"]


def test_proved_absence_ends_a_closed_intent_and_a_signature_an_open_one(agent: Agent) -> None:
    _, proved = doubtful(agent)
    with refused("NOT_RELEASABLE"):
        settle(agent.row(proved), "settle_absent", "system:reconciler")
    closing.close(agent.runtime, proved.body["idem_key"])
    settle(agent.row(proved), "settle_absent", "system:reconciler")
    assert (agent.row(proved).state, agent.row(proved).failure) == ("FAILED", "absent")
    _, signed = doubtful(agent)
    settle(agent.row(signed), "settle_absent", "user:1")
    assert (agent.row(signed).failure, agent.standings(signed)) == ("settled_absent", ["no_effect"])
    with refused("NOT_UNKNOWN"):
        settle(agent.row(signed), "settle_absent", "user:1")


def test_where_nothing_is_to_be_repeated_a_forgotten_key_begins_a_new_life(agent: Agent) -> None:
    request = agent.call(tool=PUT, send_token="a")
    first = agent.claim(request)
    agent.nothing_happened(first, send_token="a")
    claiming.age(agent.row(first), 48 * 3600)
    second = agent.claim(again(request, send_token="b"))
    row = agent.row(first)
    assert second.body["send_within_ms"] > 0
    assert row.key_expires_at - row.updated_at == timedelta(hours=24)
    assert row.first_sent_at < row.updated_at - timedelta(hours=47)


def test_two_sends_in_two_lives_of_one_key_are_two_effects(agent: Agent) -> None:
    request, first = doubtful(agent, PUT)
    claiming.age(agent.row(first), 48 * 3600)
    claiming.release(agent.row(first), "signed")
    second = agent.claim(again(request))
    agent.report(second, "committed")
    assert agent.standings(first) == ["in_doubt", "committed"]
    assert agent.incidents(first) == ["possible_duplicate"]
    agent.report(first, "committed")
    assert agent.incidents(first) == ["duplicate_effect", "possible_duplicate"]


def test_nothing_about_a_tool_that_only_reads_is_a_duplicate(agent: Agent) -> None:
    request = agent.call(tool=SAFE)
    first = agent.claim(request)
    agent.report(first, "unknown")
    second = agent.claim(again(request))
    agent.report(second, "committed", result=b"1")
    agent.report(first, "committed", result=b"2")
    assert agent.incidents(first) == []
