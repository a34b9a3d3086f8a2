"""Approve and deny, walked through the real services with a software passkey."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from approvals import decisions, expiry, reading
from approvals.errors import Refused
from approvals.models import ApprovalRequest, Decision, PendingStatement, ReviewerKey
from approvals.signing import Ceremony
from operations.models import Event
from tests.support import approving

pytestmark = pytest.mark.django_db


def begin(asked: approving.Asked, who: approving.Person, verdict: str = "approve") -> Ceremony:
    return decisions.start(who.user, who.session, asked.id, verdict, key=who.key)


def end(asked: approving.Asked, who: approving.Person, ceremony: Ceremony, answer: Any) -> Any:
    return decisions.finish(
        who.user, who.session, ceremony.statement_id, answer, approval_id=asked.id
    )


def decide(asked: approving.Asked, who: approving.Person, verdict: str = "approve") -> Any:
    ceremony = begin(asked, who, verdict)
    return end(asked, who, ceremony, who.sign(ceremony))


def refused(code: str, work: Any, check: str | None = None) -> Refused:
    with pytest.raises(Refused) as error:
        work()
    assert error.value.code == code, error.value
    if check is not None:
        assert error.value.extra["check"] == check
    return error.value


def status(asked: approving.Asked) -> str:
    return ApprovalRequest.objects.get(id=asked.opened.id).status


def expire(asked: approving.Asked) -> None:
    """Let its time pass: the guard forbids editing a request, so the clock is moved by hand."""
    with connection.cursor() as cur:
        cur.execute("SET LOCAL session_replication_role = replica")
        cur.execute(
            "UPDATE approvals_approvalrequest SET expires_at = now() - interval '1 second'"
            " WHERE id = %s",
            (asked.opened.id,),
        )
        cur.execute("SET LOCAL session_replication_role = origin")


def test_one_passkey_approval_opens_the_gate(tmp_path: Path) -> None:
    reviewer, asked = approving.person(), approving.ask()
    assert approving.operation(asked.op_id).gate == "waiting"

    decided = decide(asked, reviewer)

    assert decided.status == "approved"
    assert approving.operation(asked.op_id).gate == "granted"
    document = reading.read_approval(asked.runtime.scope, asked.id)
    assert document is not None
    assert document["status"] == "approved"
    assert not document["used"]
    assert approving.stock_verify(document["decisions"][0], tmp_path)
    events = Event.objects.filter(operation=asked.op_id).order_by("version")
    assert [event.type for event in events][-2:] == ["approval.decided", "operation.gate_granted"]


def test_a_denial_ends_the_operation() -> None:
    reviewer, asked = approving.person(), approving.ask()
    assert decide(asked, reviewer, "deny").status == "denied"
    op = approving.operation(asked.op_id)
    assert (op.state, op.failure, op.gate) == ("FAILED", "denied", "refused")


def test_a07_a18_silence_is_written_as_expiry_once_and_approves_nothing() -> None:
    asked = approving.ask()
    assert expiry.expire_due()["expired"] == 0
    expire(asked)
    assert expiry.expire_due()["expired"] == 1
    assert expiry.expire_due()["expired"] == 0
    assert status(asked) == "expired"
    op = approving.operation(asked.op_id)
    assert (op.state, op.failure) == ("FAILED", "expired")
    document = reading.read_approval(asked.runtime.scope, asked.id)
    assert document is not None
    assert document["decisions"] == []


def test_a18_expiry_is_exact_even_where_no_sweep_has_been_by() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = begin(asked, reviewer)
    expire(asked)
    refused("APPROVAL_CLOSED", lambda: begin(asked, reviewer))
    refused("APPROVAL_CLOSED", lambda: end(asked, reviewer, ceremony, reviewer.sign(ceremony)))
    assert status(asked) == "expired"
    assert approving.operation(asked.op_id).failure == "expired"


def test_a13_the_same_answer_again_gives_the_same_record() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = begin(asked, reviewer)
    answer = reviewer.sign(ceremony)
    first = end(asked, reviewer, ceremony, answer)
    again = end(asked, reviewer, ceremony, json.dumps(answer))
    assert again.replayed
    assert again.decision_id == first.decision_id
    assert Decision.objects.count() == 1


def test_a_second_signature_for_the_same_statement_is_refused() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = begin(asked, reviewer)
    one, other = reviewer.sign(ceremony), reviewer.sign(ceremony)
    end(asked, reviewer, ceremony, one)
    refused("STATEMENT_STALE", lambda: end(asked, reviewer, ceremony, other))
    assert Decision.objects.count() == 1


def test_a_statement_is_tried_once() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = begin(asked, reviewer)
    good = reviewer.sign(ceremony)
    reviewer.passkey.origin = "https://evil.example"
    refused(
        "SIGNATURE_REFUSED",
        lambda: end(asked, reviewer, ceremony, reviewer.sign(ceremony)),
        "origin",
    )
    refused("STATEMENT_STALE", lambda: end(asked, reviewer, ceremony, good))
    assert status(asked) == "pending"
    noted = Event.objects.get(type="approval.signature_refused")
    assert noted.data["check"] == "origin"


def test_n26_an_answer_to_another_request_is_refused() -> None:
    reviewer, asked, other = approving.person(), approving.ask(), approving.ask()
    mine, theirs = begin(asked, reviewer), begin(other, reviewer)
    answer = reviewer.sign(theirs)
    refused("SIGNATURE_REFUSED", lambda: end(asked, reviewer, mine, answer), "challenge")
    # and a statement is only good at the address of its own approval
    refused("STATEMENT_STALE", lambda: end(asked, reviewer, theirs, answer))
    assert end(other, reviewer, theirs, answer).status == "approved"


def test_n26_a_statement_older_than_five_minutes_is_refused() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = begin(asked, reviewer)
    PendingStatement.objects.update(expires_at="2020-01-01T00:00:00Z")
    refused("STATEMENT_STALE", lambda: end(asked, reviewer, ceremony, reviewer.sign(ceremony)))
    assert decide(asked, reviewer).status == "approved"


def test_a_statement_of_another_session_or_person_does_not_exist() -> None:
    reviewer, other, asked = approving.person(), approving.person(), approving.ask()
    ceremony = begin(asked, reviewer)
    answer = reviewer.sign(ceremony)
    other.session = reviewer.session
    refused("STATEMENT_STALE", lambda: end(asked, other, ceremony, answer))
    reviewer.session = "another session"
    refused("STATEMENT_STALE", lambda: end(asked, reviewer, ceremony, answer))
    reviewer.session = approving.SESSION
    assert end(asked, reviewer, ceremony, answer).status == "approved"


def test_n36_bytes_that_were_altered_in_between_are_another_challenge() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = begin(asked, reviewer, "deny")
    answer = reviewer.sign(ceremony)
    pending = PendingStatement.objects.latest("created_at")
    pending.statement = bytes(pending.statement).replace(b'"deny"', b'"approve"')
    pending.save()
    refused("SIGNATURE_REFUSED", lambda: end(asked, reviewer, ceremony, answer), "challenge")
    assert status(asked) == "pending"


def test_n30_a_counter_that_stands_still_is_refused_and_noted() -> None:
    reviewer, asked, later = approving.person(), approving.ask(), approving.ask()
    decide(asked, reviewer)
    assert ReviewerKey.objects.get(id=reviewer.key.id).sign_count == 1
    reviewer.passkey.counts = False
    refused("SIGNATURE_REFUSED", lambda: decide(later, reviewer), "counter")
    assert Event.objects.filter(type="approval.signature_refused", data__check="counter").exists()


def test_n32_a_key_of_another_person_or_purpose_or_a_revoked_one_is_refused() -> None:
    reviewer, other, asked = approving.person(), approving.person(), approving.ask()
    refused(
        "FORBIDDEN",
        lambda: decisions.start(
            reviewer.user, reviewer.session, asked.id, "approve", key=other.key
        ),
        "credential",
    )
    ceremony = begin(asked, reviewer)
    ReviewerKey.objects.filter(id=reviewer.key.id).update(revoked_at="2026-01-01T00:00:00Z")
    refused(
        "FORBIDDEN",
        lambda: end(asked, reviewer, ceremony, reviewer.sign(ceremony)),
        "credential",
    )
    ReviewerKey.objects.filter(id=reviewer.key.id).update(revoked_at=None, purpose="login")
    reviewer.key.refresh_from_db()
    refused("FORBIDDEN", lambda: begin(asked, reviewer), "credential")


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
    from approvals import envelopes
    from approvals.encodings import b64

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


def _opened(approval_id: str) -> Any:
    request = decisions.find(approval_id)
    return approving.Opened(request.id, request.handle, request.expires_at)


def test_a22_a_rule_that_asks_nobody_leaves_what_was_asked() -> None:
    approving.publish({"id": "one", "match": {}})
    reviewer, asked = approving.person(), approving.ask()
    approving.publish({"id": "one", "match": {}, "quorum": 0})
    assert decide(asked, reviewer).status == "approved"


def test_n45_signatures_of_two_requests_of_one_call_cannot_be_spliced() -> None:
    approving.publish({"id": "two", "match": {}, "quorum": 2})
    first, asked = approving.person(), approving.ask()
    decide(asked, first)
    from approvals import policies, requests
    from operations import rows

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


def test_a14_an_unknown_approval_is_not_found_for_denials_as_well() -> None:
    reviewer = approving.person()
    for verdict in ("approve", "deny"):
        for name in ("apr_" + "0" * 26, "apr_nonsense", "", "op_" + "0" * 26):
            error = refused(
                "NOT_FOUND",
                lambda v=verdict, n=name: decisions.start(  # type: ignore[misc]
                    reviewer.user, "s", n, v, key=reviewer.key
                ),
            )
            assert error.status == 404


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


def test_what_was_signed_cannot_be_edited_in_the_database() -> None:
    from django.db import IntegrityError

    reviewer, asked = approving.person(), approving.ask()
    decide(asked, reviewer)
    for sql in (
        "UPDATE approvals_decision SET verdict = 'deny'",
        "DELETE FROM approvals_decision",
        "UPDATE approvals_approvalrequest SET args_fingerprint = 'x'",
        "UPDATE approvals_approvalrequest SET quorum = 0",
        "DELETE FROM approvals_approvalrequest",
    ):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cur:
            cur.execute(sql)
    Decision.objects.update(counts=False)
