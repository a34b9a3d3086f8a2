"""Approve and deny, walked through the real services with a software passkey."""

import json
from functools import partial
from pathlib import Path

import pytest
from django.db import IntegrityError, connection, transaction

from approvals import decisions, expiry, reading
from approvals.models import Decision, PendingStatement, ReviewerKey
from operations.models import Event
from tests.support import approving
from tests.support.deciding import begin, decide, end, expire, refused, status

pytestmark = pytest.mark.django_db


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
    assert [event.type for event in events][-3:] == [
        "approval.decided", "operation.gate_granted", "operation.gate_sealed",
    ]  # fmt: skip


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


def test_a14_an_unknown_approval_is_not_found_for_denials_as_well() -> None:
    reviewer = approving.person()
    for verdict in ("approve", "deny"):
        for name in ("apr_" + "0" * 26, "apr_nonsense", "", "op_" + "0" * 26):
            error = refused(
                "NOT_FOUND",
                partial(decisions.start, reviewer.user, "s", name, verdict, key=reviewer.key),
            )
            assert error.status == 404


def test_what_was_signed_cannot_be_edited_in_the_database() -> None:
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
