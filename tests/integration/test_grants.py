"""What was approved runs once, and only that: a runtime's own claim."""

import pytest
from django.db import connection

from approvals import jwks, jws, reading, revocation
from approvals.models import Grant
from operations import leases, outcomes
from operations.claims import OutcomeReport
from operations.errors import DomainError
from operations.models import Event
from tests.support import approving
from tests.support.granting import approve, approved, claim, consume, mint, refused, used

pytestmark = pytest.mark.django_db


def test_a_claim_after_approval_spends_a_grant_that_anybody_can_verify() -> None:
    asked = approved()
    answer = claim(asked, attempt_id="try-1")
    assert answer.status == 201
    claims = jws.verify(answer.body["grant"], jwks.public_keys())
    assert claims["sub"] == answer.body["idem_key"]
    assert claims["aud"] == str(asked.runtime.key_id)
    assert claims["args_sha256"] == answer.body["args_fingerprint"].removeprefix("jcs-sha256:")
    assert claims["exp"] - claims["iat"] <= 300
    assert claims["exp"] <= asked.opened.expires_at.timestamp()
    document = reading.read_approval(asked.runtime.scope, asked.id)
    assert document is not None
    assert claims["decisions"] == [one["decision_id"] for one in document["decisions"]]
    assert document["used"]


def test_the_same_claim_again_carries_the_same_grant() -> None:
    asked = approved()
    first, again = (claim(asked, attempt_id="try-1") for _ in range(2))
    assert (first.status, again.status) == (201, 201)
    assert first.body["grant"] == again.body["grant"]
    assert Grant.objects.count() == 1


def test_an_approval_is_usable_again_after_an_attempt_that_did_nothing() -> None:
    asked = approved()
    first = claim(asked, attempt_id="try-1")
    report = OutcomeReport(attempt_number=1, attempt_id="try-1", outcome="failed", effect="none")
    outcomes.report_outcome(asked.runtime, first.body["idem_key"], report)
    assert not used(asked)
    second = claim(asked, attempt_id="try-2")
    assert second.status == 201
    assert second.body["grant"] != first.body["grant"]
    assert Grant.objects.exclude(consumed_at=None).count() == 2
    assert used(asked)


def test_a05_nothing_runs_after_a_denial() -> None:
    asked = approving.ask()
    approve(asked, approving.person(), "deny")
    with pytest.raises(DomainError) as error:
        claim(asked)
    assert error.value.code == "OPERATION_PREVIOUSLY_FAILED"
    assert error.value.extra["failure"] == "denied"


def test_a05_the_stored_request_decides_and_not_the_policy_of_the_day() -> None:
    """A call that was asked about stays asked about, whatever the rules say meanwhile."""
    asked = approving.ask()
    approving.publish({"id": "open", "match": {}, "quorum": 0})
    assert claim(asked).status == 202


def test_a_denial_while_it_is_being_sent_stops_the_permit() -> None:
    asked = approved()
    answer = claim(asked, attempt_id="try-1", fenced=True)
    approve(asked, approving.person(), "deny")
    with pytest.raises(DomainError) as error:
        leases.sending(asked.runtime, answer.body["idem_key"], 1, "token")
    assert error.value.code == "APPROVAL_REVOKED"


def test_n49_an_approval_of_a_reviewer_who_left_is_asked_about_again() -> None:
    reviewer, asked = approving.person(), approving.ask()
    approve(asked, reviewer)
    reviewer.user.is_active = False
    reviewer.user.save()
    answer = claim(asked)
    assert answer.status == 202
    assert answer.body["approval"]["id"] != asked.id


def test_n49_a_compromised_key_takes_its_unused_approvals_with_it() -> None:
    reviewer, asked, other = approving.person(), approving.ask(), approving.ask()
    approve(asked, reviewer)
    approve(other, reviewer)
    granted = mint(asked)
    assert revocation.revoke(reviewer.key, "lost", actor="user:x") == 0
    assert mint(other, "keep")["jti"]
    assert revocation.revoke(reviewer.key, "compromised", actor="user:x") == 2
    refused("GRANT_REVOKED", 410, lambda: consume(asked, granted))
    assert approving.operation(asked.op_id).gate == "revoked"
    assert claim(asked).status == 202


def test_a_decision_row_that_was_written_by_hand_grants_nothing() -> None:
    reviewer, asked, other = approving.person(), approving.ask(), approving.ask()
    approve(other, reviewer)
    with connection.cursor() as cur:
        cur.execute("SET LOCAL session_replication_role = replica")
        cur.execute(
            "UPDATE approvals_decision SET request_id = %s WHERE request_id = %s",
            (asked.opened.id, other.opened.id),
        )
        cur.execute(
            "UPDATE approvals_approvalrequest SET status = 'approved' WHERE id = %s",
            (asked.opened.id,),
        )
        cur.execute(
            "UPDATE operations_operation SET gate = 'granted' WHERE id = %s", (asked.op_id,)
        )
        cur.execute("SET LOCAL session_replication_role = origin")
    error = refused("GRANT_REVOKED", 410, lambda: mint(asked))
    assert "does not verify" in error.detail


def test_n77_a_compromised_key_is_believed_up_to_its_place_in_the_log() -> None:
    reviewer = approving.person()
    early, late = approving.ask(), approving.ask()
    approve(early, reviewer)
    approve(late, reviewer)
    decided = Event.objects.filter(type="approval.decided", operation=late.op_id).get()
    index = decided.sealed.seq - 1
    assert revocation.revoke(reviewer.key, "compromised", actor="user:x", bad_from=index) == 1
    refused("GRANT_REVOKED", 410, lambda: mint(late))
    assert mint(early)["approval"] == early.id
