"""Doubt belongs to an attempt: lapses, permits, releases, and ends beside a doubt."""

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


# Lapses


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


# Releases


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


# Settling


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


# Closing


def test_cancel_takes_only_what_is_pending(agent: Agent) -> None:
    running = agent.claim(tool=MAIL)
    with refused("NOT_CANCELLABLE"):
        closing.cancel(agent.runtime, running.body["idem_key"])
    agent.nothing_happened(running)
    done = closing.cancel(agent.runtime, running.body["idem_key"])
    assert (done["operation"]["state"], done["operation"]["failure"]) == ("FAILED", "cancelled")
    assert done["operation"]["closed"]
    with refused("NOT_CANCELLABLE"):
        closing.cancel(agent.runtime, running.body["idem_key"])


def test_cancelling_beside_a_doubt_leaves_the_doubt(agent: Agent) -> None:
    _, granted = doubtful(agent, PUT)
    claiming.release(agent.row(granted), "replay")
    done = closing.cancel(agent.runtime, granted.body["idem_key"])
    assert (done["operation"]["state"], done["operation"]["closed"]) == ("UNKNOWN", True)
    settled = agent.nothing_happened(granted)
    assert (settled["operation"]["state"], settled["operation"]["failure"]) == (
        "FAILED",
        "cancelled",
    )


def test_close_on_a_live_attempt_lets_it_end_first(agent: Agent) -> None:
    granted = agent.claim(tool=MAIL, fenced=True)
    done = closing.close(agent.runtime, granted.body["idem_key"])
    assert (done["operation"]["state"], done["operation"]["closed"]) == ("INVOKED", True)
    again_closed = closing.close(agent.runtime, granted.body["idem_key"])
    assert again_closed["operation"]["version"] == done["operation"]["version"]
    ended = agent.nothing_happened(granted)
    assert (ended["operation"]["state"], ended["operation"]["failure"]) == ("FAILED", "cancelled")
    lapsed = agent.claim(tool=MAIL, fenced=True)
    closing.close(agent.runtime, lapsed.body["idem_key"])
    claiming.let_lapse(agent.row(lapsed))
    claiming.sweep()
    assert (agent.row(lapsed).state, agent.row(lapsed).failure) == ("FAILED", "cancelled")


def test_the_end_of_a_run_closes_what_is_unfinished_in_it(agent: Agent) -> None:
    request = agent.call(tool=MAIL)
    pending = agent.claim(request)
    agent.nothing_happened(pending)
    _, unknown = doubtful(agent, run_id=request.run_id, step=2)
    done = agent.claim(again(request, step=3))
    agent.report(done, "committed")
    with rows.hot_cursor() as cur:
        ended = closing.close_run(cur, agent.row(pending).run_id, "finished", actor="user:1")
    assert ended == 2
    assert (agent.row(pending).state, agent.row(pending).failure) == ("FAILED", "cancelled")
    assert (agent.row(unknown).state, agent.row(unknown).closed) == ("UNKNOWN", True)
    assert agent.row(done).run.status == "finished"


# Gates


def gate(op: Operation, verb: str, *said: Any, actor: str = "user:1") -> None:
    with rows.hot_cursor() as cur:
        locked = rows.lock(cur, op_id=op.id)
        getattr(settling, verb)(cur, locked, *said, actor=actor)


def test_a_refusal_ends_what_waits_and_expiry_is_told_apart() -> None:
    claiming.publish(*claiming.TOOLS)
    live = Agent("live")
    for failure in ("denied", "expired", "withdrawn"):
        request = live.call(tool=MAIL)
        waits = live.claim(request)
        ref = waits.body["approval"]["id"]
        gate(live.row(waits), "refuse_gate", "apr_of_another", failure)
        assert live.row(waits).state == states.PENDING
        gate(live.row(waits), "refuse_gate", ref, failure)
        row = live.row(waits)
        assert (row.state, row.failure, row.gate) == ("FAILED", failure, "refused")
        with refused("OPERATION_PREVIOUSLY_FAILED") as error:
            live.claim(again(request))
        assert error.extra["failure"] == failure


def approved_and_sent(live: Agent) -> Any:
    """A live attempt of a gated call, as consuming a grant would leave it."""
    granted = live.claim(tool=SAFE, fenced=True)
    row = live.row(granted)
    Operation.objects.filter(id=row.id).update(
        gate="granted", gate_ref="apr_1", gate_used=True,
        gate_expires_at=row.created_at + timedelta(hours=1),
    )  # fmt: skip
    return granted


def test_a_late_denial_refuses_the_permit_and_closes_the_intent() -> None:
    live = Agent("live")
    claiming.publish(*claiming.TOOLS)
    granted = approved_and_sent(live)
    gate(live.row(granted), "refuse_gate", "apr_1", "denied")
    with refused("APPROVAL_REVOKED"):
        live.sending(granted, "t")
    row = live.row(granted)
    assert (row.state, row.gate, row.closed, row.closed_as) == (
        "INVOKED",
        "revoked",
        True,
        "denied",
    )
    ended = live.nothing_happened(granted)
    assert (ended["operation"]["state"], ended["operation"]["failure"]) == ("FAILED", "denied")


def test_what_is_executed_after_a_denial_is_an_incident() -> None:
    live = Agent("live")
    claiming.publish(*claiming.TOOLS)
    granted = approved_and_sent(live)
    gate(live.row(granted), "refuse_gate", "apr_1", "denied")
    live.report(granted, "committed")
    assert live.incidents(granted) == ["executed_after_denial"]
    in_time = approved_and_sent(live)
    live.sending(in_time, "t")
    claiming.age(live.row(in_time), 600)
    gate(live.row(in_time), "refuse_gate", "apr_1", "denied")
    live.report(in_time, "committed")
    assert "executed_after_denial" not in live.incidents(in_time)


def test_a_revoked_or_outdated_approval_gives_no_permit() -> None:
    live = Agent("live")
    claiming.publish(*claiming.TOOLS)
    revoked = approved_and_sent(live)
    gate(live.row(revoked), "revoke_gate", "apr_1")
    with refused("APPROVAL_REVOKED"):
        live.sending(revoked, "t")
    assert not live.row(revoked).closed
    outdated = approved_and_sent(live)
    claiming.age(live.row(outdated), 3700)
    with refused("APPROVAL_REVOKED"):
        live.sending(outdated, "t")


# Compensations


def test_a_compensation_waits_for_its_original(agent: Agent) -> None:
    _, original = doubtful(agent, PUT)
    undo = agent.call(tool=MAIL, compensates=original.body["idem_key"])
    waits = agent.claim(undo)
    assert (waits.status, waits.body["decision"]) == (202, "await_reconciliation")
    assert waits.body["operation"]["compensates"] == original.body["idem_key"]
    assert waits.body["operation"]["waiting_on"] == "look"
    assert waits.body["operation"]["decision"] == "await_reconciliation"
    with refused("NOT_RELEASABLE"):
        claiming.release(agent.row(original), "replay")
    agent.report(original, "committed")
    assert agent.row(waits).waiting_on == "runtime"
    assert agent.claim(undo).status == 201


def test_a_compensation_is_cancelled_when_its_original_fails(agent: Agent) -> None:
    _, original = doubtful(agent)
    undo = agent.call(tool=MAIL, compensates=agent.claim(agent.call()).body["operation"]["id"])
    assert agent.claim(undo).body["decision"] == "await_reconciliation"
    undo = agent.call(tool=MAIL, compensates=original.body["idem_key"])
    waits = agent.claim(undo)
    agent.nothing_happened(original, permanent=True)
    assert (agent.row(waits).state, agent.row(waits).failure) == ("FAILED", "cancelled")
    with refused("OPERATION_PREVIOUSLY_FAILED"):
        agent.claim(undo)


def test_only_one_compensation_is_live(agent: Agent) -> None:
    _, original = doubtful(agent)
    key = original.body["idem_key"]
    first = agent.claim(tool=MAIL, compensates=key)
    with refused("COMPENSATION_EXISTS"):
        agent.claim(tool=MAIL, compensates=key)
    closing.cancel(agent.runtime, first.body["idem_key"])
    assert agent.claim(tool=MAIL, compensates=key).status == 202
    with refused("VALIDATION_ERROR") as error:
        agent.claim(tool=MAIL, compensates="nothing")
    assert error.extra["pointer"] == "/compensates"


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
