"""From the approval to the send: what a plain claim spends, and what brings the question back."""

import dataclasses
from typing import Any

import pytest
from django.db import connection, transaction

from approvals import decisions
from approvals.models import ApprovalRequest
from operations import catalogue, closing, intents, naming, rows, states
from operations.models import Operation
from tests.support import approving, claiming, sealing
from tests.support.approving import Person
from tests.support.claiming import MAIL, SAFE, Agent, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent("live")


def decide(someone: Person, approval_id: str, verdict: str = "approve") -> Any:
    ceremony = decisions.start(someone.user, someone.session, approval_id, verdict, key=someone.key)
    decided = decisions.finish(
        someone.user,
        someone.session,
        ceremony.statement_id,
        someone.sign(ceremony),
        approval_id=approval_id,
    )
    sealing.seal()
    return decided


def approved(agent: Agent, **said: Any) -> tuple[Any, Any]:
    request = agent.call(tool=MAIL, **said)
    waits = agent.claim(request)
    decide(approving.person(), waits.body["approval"]["id"])
    return request, waits


def again(request: Any, **said: Any) -> Any:
    return dataclasses.replace(request, **{"attempt_id": "another", **said})


def asked(op: Operation) -> ApprovalRequest:
    return ApprovalRequest.objects.filter(operation=op).latest("created_at")


def test_a_plain_claim_after_approval_spends_its_grant(agent: Agent) -> None:
    request, waits = approved(agent, send_token="t")
    granted = agent.claim(request)
    row = agent.row(waits)
    assert (granted.status, granted.body["send_within_ms"] > 0) == (201, True)
    assert granted.body["grant"].count(".") == 2
    assert (row.gate, row.gate_used, row.attempt_set.get().grant) == (
        "granted",
        True,
        waits.body["approval"]["id"],
    )
    used = asked(row)
    assert (used.claim_id, used.attempt_number) == (request.attempt_id, 1)
    assert agent.claim(request).body["grant"] == granted.body["grant"]


def test_an_approval_that_sent_nothing_is_usable_again(agent: Agent) -> None:
    request, waits = approved(agent, fenced=True)
    first = agent.claim(request)
    agent.nothing_happened(first)
    assert not agent.row(waits).gate_used
    second = agent.claim(again(request))
    assert (second.status, second.body["attempt_number"]) == (201, 2)
    claiming.let_lapse(agent.row(waits))
    third = agent.claim(again(request, attempt_id="third"))
    assert third.body["attempt_number"] == 3
    assert ApprovalRequest.objects.filter(operation=agent.row(waits)).count() == 1


def test_an_approval_not_used_in_time_is_asked_for_again(agent: Agent) -> None:
    request, waits = approved(agent)
    claiming.age(agent.row(waits), 3601)
    answer = agent.claim(request)
    assert (answer.status, answer.body["decision"]) == (202, "await_approval")
    assert answer.body["approval"]["id"] != waits.body["approval"]["id"]
    row = agent.row(waits)
    assert (row.state, row.gate, row.failure) == ("PENDING", "waiting", None)


def test_a_request_that_nobody_decided_has_expired_for_its_claim(agent: Agent) -> None:
    request = agent.call(tool=MAIL)
    waits = agent.claim(request)
    with connection.cursor() as cur:
        cur.execute("SET LOCAL session_replication_role = replica")
        cur.execute("UPDATE approvals_approvalrequest SET expires_at = now() - interval '1 s'")
        cur.execute("SET LOCAL session_replication_role = origin")
    with refused("OPERATION_PREVIOUSLY_FAILED") as error:
        agent.claim(request)
    assert error.extra["failure"] == "expired"
    assert asked(agent.row(waits)).status == "expired"


def test_a_signed_release_is_asked_about_anew(agent: Agent) -> None:
    request, waits = approved(agent)
    agent.report(agent.claim(request), "unknown")
    claiming.age(agent.row(waits), 1100)
    claiming.release(agent.row(waits), "signed")
    answer = agent.claim(again(request))
    assert (answer.status, answer.body["decision"]) == (202, "await_approval")
    assert answer.body["approval"]["id"] != waits.body["approval"]["id"]
    decide(approving.person(), answer.body["approval"]["id"], "deny")
    row = agent.row(waits)
    assert (row.state, row.closed, row.closed_as) == ("UNKNOWN", True, "denied")


def test_a_late_success_of_an_approved_attempt_was_not_executed_without_approval(
    agent: Agent,
) -> None:
    request, waits = approved(agent)
    first = agent.claim(request)
    agent.report(first, "unknown")
    claiming.age(agent.row(waits), 1100)
    claiming.release(agent.row(waits), "signed")
    assert agent.claim(again(request)).body["decision"] == "await_approval"
    agent.report(first, "committed")
    assert agent.incidents(waits) == ["late_effect"]


def test_proved_absence_leaves_the_approval_usable(agent: Agent) -> None:
    request, waits = approved(agent, send_token="t")
    agent.report(agent.claim(request), "unknown")
    claiming.release(agent.row(waits), "absent", proved_by_class="B")
    assert agent.claim(again(request)).status == 201


def test_a_denial_ends_it_and_a_late_one_stops_the_permit(agent: Agent) -> None:
    request = agent.call(tool=MAIL)
    waits = agent.claim(request)
    decide(approving.person(), waits.body["approval"]["id"], "deny")
    with refused("OPERATION_PREVIOUSLY_FAILED") as error:
        agent.claim(request)
    assert error.extra["failure"] == "denied"
    request, waits = approved(agent, fenced=True)
    granted = agent.claim(request)
    decide(approving.person(), waits.body["approval"]["id"], "deny")
    with refused("APPROVAL_REVOKED"):
        agent.sending(granted, "t")


def test_a_named_executor_only_waits_and_spends_nothing(agent: Agent) -> None:
    request, waits = approved(agent, executor="mcp-mail")
    answer = agent.claim(request)
    assert (answer.status, answer.body["decision"]) == (202, "delegated")
    assert answer.body["approval"]["id"] == waits.body["approval"]["id"]
    row = agent.row(waits)
    assert (row.state, row.gate_used) == (states.PENDING, False)


def test_a13_a_claim_without_an_outcome_is_unknown_and_the_approval_stays_on_record(
    agent: Agent,
) -> None:
    request, waits = approved(agent)
    granted = agent.claim(request)
    claiming.let_lapse(agent.row(granted))
    claiming.sweep()
    answer = agent.claim(again(request))
    assert answer.body["decision"] == "await_reconciliation"
    assert answer.body["operation"]["state"] == "UNKNOWN"
    assert answer.body["operation"]["approval"]["id"] == waits.body["approval"]["id"]
    assert asked(agent.row(waits)).status == "approved"


def test_a_call_that_an_approver_edited_runs_with_the_edited_arguments(agent: Agent) -> None:
    request = agent.call(tool=SAFE, fenced=True)
    first = agent.claim(request)
    agent.nothing_happened(first)
    edited = again(request, tool_call_id="call_1~edit1", args=[2], args_raw=b"[ 2 ]")
    with transaction.atomic(), rows.hot_cursor() as cur:
        intent = naming.describe(edited, agent.runtime, catalogue.current(cur))
        made = intents.record_intent(cur, intent, agent.runtime, minted=True)
        original = rows.lock(cur, op_id=agent.row(first).id)
        assert isinstance(made, intents.Recorded)
        assert original is not None
        closing.supersede(cur, original, made.op, actor="user:1")
    with refused("OPERATION_PREVIOUSLY_FAILED") as error:
        agent.claim(again(request))
    assert (error.extra["failure"], error.extra["superseded_by"]) == (
        "superseded",
        made.op.idem_key,
    )
    answer = agent.claim(again(request, tool_call_id="call_1~edit1"))
    assert (answer.status, answer.body["args_raw"]) == (201, "[ 2 ]")
    assert answer.body["args_fingerprint"] == intent.args_fingerprint
    with refused("IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS"):
        agent.claim(again(edited, args=[3], args_raw=b"[3]"))
