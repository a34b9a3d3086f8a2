"""What ends an intent beside a live or doubtful attempt: closing, gates, compensations."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from operations import closing, rows, settling, states
from operations.models import Operation
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
