"""Evidence for what was never claimed or issued; the permit to send and the heartbeat."""

import dataclasses
import json
import uuid
from datetime import timedelta
from typing import Any

import pytest

from operations import ingest, leases, outcomes, states
from operations.claims import OutcomeReport
from operations.models import InboxItem
from tests.support import claiming
from tests.support.claiming import MAIL, Agent, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def again(request: Any, **said: Any) -> Any:
    return dataclasses.replace(request, **{"attempt_id": "another", **said})


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
