"""Who may decide, how many it takes, with which key, under which policy, having read what."""

import json

import pytest
from django.db import transaction

from approvals import decisions, envelopes, policies, reading, requests
from approvals.encodings import b64
from approvals.models import Decision, PendingStatement
from approvals.requests import Opened
from operations import rows
from tests.support import approving
from tests.support.deciding import begin, decide, end, refused, status

pytestmark = pytest.mark.django_db


def test_n42_a_browser_key_counts_only_where_the_rule_says_so() -> None:
    reviewer = approving.person()
    browser = approving.BrowserKey()
    key = browser.enrol(reviewer.user)
    strict = approving.ask()
    refused(
        "CUSTODY_TOO_LOW",
        lambda: decisions.start(reviewer.user, "s", strict.id, "approve", key=key),
        "assurance",
    )
    approving.publish({"id": "soft", "match": {"tool": "soft.*"}, "min_custody": "A1"})
    soft = approving.ask(tool="soft.note")
    ceremony = decisions.start(reviewer.user, "s", soft.id, "approve", key=key)
    done = decisions.finish(
        reviewer.user, "s", ceremony.statement_id, browser.answer(ceremony), approval_id=soft.id
    )
    assert done.status == "approved"
    document = reading.read_approval(soft.runtime.scope, soft.id)
    assert document is not None
    (decision,) = document["decisions"]
    assert (decision["custody"], decision["sshsig"]) == ("A1", None)


def test_n42_a_statement_that_claims_another_custody_is_refused() -> None:
    reviewer = approving.person()
    browser = approving.BrowserKey()
    key = browser.enrol(reviewer.user)
    approving.publish({"id": "soft", "match": {}, "min_custody": "A1"})
    asked = approving.ask()
    ceremony = decisions.start(reviewer.user, "s", asked.id, "approve", key=key)
    pending = PendingStatement.objects.latest("created_at")
    pending.statement = bytes(pending.statement).replace(b'"custody":"A1"', b'"custody":"A2"')
    pending.save()
    forged = browser.sign(envelopes.pae(bytes(pending.statement)))
    refused(
        "SIGNATURE_REFUSED",
        lambda: decisions.finish(
            reviewer.user, "s", ceremony.statement_id, {"signature": b64(forged)},
            approval_id=asked.id,
        ),
        "assurance",
    )  # fmt: skip


def test_a_quorum_of_two_needs_two_people() -> None:
    approving.publish({"id": "two", "match": {}, "quorum": 2})
    first, second, asked = approving.person(), approving.person(), approving.ask()
    decided = decide(asked, first)
    assert (decided.status, decided.missing) == ("pending", "1 more of 2")
    again = refused("ALREADY_DECIDED", lambda: begin(asked, first))
    assert "approve" in again.detail
    assert approving.operation(asked.op_id).gate == "waiting"
    assert decide(asked, second).status == "approved"


def test_people_see_no_decision_of_a_request_that_waits() -> None:
    approving.publish({"id": "two", "match": {}, "quorum": 2})
    first, asked = approving.person(), approving.ask()
    decide(asked, first)
    shown = reading.read_approval(None, asked.id)
    assert shown is not None
    assert shown["decisions"] == []
    listed, _ = reading.list_approvals(status="pending")
    assert listed[0]["decisions"] == []


def test_n48_a_denial_after_an_approval_denies() -> None:
    approving.publish({"id": "two", "match": {}, "quorum": 2})
    first, second, third = approving.person(), approving.person(), approving.person()
    asked = approving.ask()
    decide(asked, first)
    assert decide(asked, second, "deny").status == "denied"
    refused("APPROVAL_CLOSED", lambda: begin(asked, third))


def test_a_late_denial_wins_while_the_operation_is_open() -> None:
    first, second, asked = approving.person(), approving.person(), approving.ask()
    decide(asked, first)
    refused("ALREADY_DECIDED", lambda: begin(asked, second))
    assert decide(asked, second, "deny").status == "denied"
    op = approving.operation(asked.op_id)
    assert (op.state, op.failure) == ("FAILED", "denied")
    refused("APPROVAL_CLOSED", lambda: begin(asked, approving.person(), "deny"))


def test_n46_a20_who_launched_the_agent_cannot_approve_but_may_deny() -> None:
    launcher = approving.person()
    asked = approving.ask(trigger=f"user:{launcher.user.email}/nightly-1")
    refused("SEPARATION_OF_DUTIES", lambda: begin(asked, launcher))
    other = approving.ask(trigger=f"user:{launcher.user.id}")
    refused("SEPARATION_OF_DUTIES", lambda: begin(other, launcher))
    assert decide(other, launcher, "deny").status == "denied"
    assert decide(asked, approving.person()).status == "approved"


def test_n46_who_published_the_rule_cannot_approve_under_it() -> None:
    editor = approving.person()
    approving.publish({"id": "mine", "match": {}}, actor=f"user:{editor.user.id}")
    asked = approving.ask()
    refused("SEPARATION_OF_DUTIES", lambda: begin(asked, editor))
    assert decide(asked, approving.person()).status == "approved"


def test_whom_the_rule_bars_cannot_approve() -> None:
    barred = approving.person()
    approving.publish({"id": "r", "match": {}, "never": [barred.user.email]})
    asked = approving.ask()
    refused("SEPARATION_OF_DUTIES", lambda: begin(asked, barred))


@pytest.mark.parametrize("role", ["viewer", "operator", "admin", "auditor"])
def test_only_reviewers_decide_and_others_read_who_can(role: str) -> None:
    reviewer = approving.person()
    someone = approving.user(role)
    asked = approving.ask()
    error = refused(
        "FORBIDDEN",
        lambda: decisions.start(someone, "s", asked.id, "deny", key=reviewer.key),
    )
    assert f"needs reviewer; you are {role}" in error.detail
    assert reviewer.user.email in error.detail


def test_n47_a22_a_policy_that_changes_between_two_votes_voids_the_first() -> None:
    approving.publish({"id": "two", "match": {}, "quorum": 2})
    first, second, asked = approving.person(), approving.person(), approving.ask()
    decide(asked, first)
    ceremony = begin(asked, second)
    approving.publish({"id": "two", "match": {}, "quorum": 2, "expires_minutes": 5})

    error = refused(
        "POLICY_CHANGED",
        lambda: end(asked, second, ceremony, second.sign(ceremony)),
        "policy.changed",
    )

    assert status(asked) == "superseded"
    assert not Decision.objects.get().counts
    new_id = error.extra["approval_id"]
    op = approving.operation(asked.op_id)
    assert (op.state, op.gate, op.gate_ref) == ("PENDING", "waiting", new_id)
    asked_again = approving.Asked(asked.op_id, _opened(new_id), asked.runtime, asked.request)
    decide(asked_again, first)
    assert decide(asked_again, second).status == "approved"


def _opened(approval_id: str) -> Opened:
    request = decisions.find(approval_id)
    return Opened(request.id, request.handle, request.expires_at)


def test_a22_a_rule_that_asks_nobody_leaves_what_was_asked() -> None:
    approving.publish({"id": "one", "match": {}})
    reviewer, asked = approving.person(), approving.ask()
    approving.publish({"id": "one", "match": {}, "quorum": 0})
    assert decide(asked, reviewer).status == "approved"


def test_n45_signatures_of_two_requests_of_one_call_cannot_be_spliced() -> None:
    approving.publish({"id": "two", "match": {}, "quorum": 2})
    first, asked = approving.person(), approving.ask()
    decide(asked, first)
    with transaction.atomic(), rows.hot_cursor() as cur:
        op = rows.lock(cur, op_id=asked.op_id)
        assert op is not None
        rule = policies.rule_for(op, asked.request.args)
        again = requests.open_request(cur, op, rule, asked.request, asked.runtime)
    assert status(asked) == "superseded"
    second = approving.person()
    anew = approving.Asked(asked.op_id, again, asked.runtime, asked.request)
    decided = decide(anew, second)
    assert (decided.status, decided.missing) == ("pending", "1 more of 2")


def test_n52_a_folded_value_must_be_opened_where_the_rule_says_so() -> None:
    approving.publish({"id": "full", "match": {}, "coverage": "full"})
    args = {"memo": "a" * 5000 + "payload"}
    reviewer = approving.person()
    asked = approving.ask(args=args, args_raw=json.dumps(args).encode())
    refused("VALIDATION_ERROR", lambda: begin(asked, reviewer))
    ceremony = decisions.start(
        reviewer.user, reviewer.session, asked.id, "approve", key=reviewer.key, opened=["/memo"]
    )
    said = ceremony.statement["predicate"]["display"]
    assert (said["coverage"], said["warnings"]) == ("opened", ["LONG_VALUE"])
    assert end(asked, reviewer, ceremony, reviewer.sign(ceremony)).status == "approved"


def test_n50_hidden_characters_are_warned_about_in_the_signed_statement() -> None:
    args = {"to": "acme\u200b\u202ecorp"}
    reviewer = approving.person()
    asked = approving.ask(args=args, args_raw=json.dumps(args).encode())
    said = begin(asked, reviewer).statement["predicate"]["display"]
    assert said["warnings"] == ["BIDI", "INVISIBLE"]
    assert said["coverage"] == "full"
