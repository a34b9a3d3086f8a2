"""What was approved runs once, and only that."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from approvals import admission, decisions, grants, jwks, jws, reading, revocation
from approvals.errors import Refused
from approvals.models import ApprovalRequest, Grant
from operations import outcomes, sweeps
from operations.claims import OutcomeReport
from operations.models import Event, Incident
from tests.support import approving

pytestmark = pytest.mark.django_db


def approved(**changes: Any) -> approving.Asked:
    asked = approving.ask(**changes)
    approve(asked, approving.person())
    return asked


def approve(asked: approving.Asked, who: approving.Person, verdict: str = "approve") -> Any:
    ceremony = decisions.start(who.user, who.session, asked.id, verdict, key=who.key)
    return decisions.finish(
        who.user, who.session, ceremony.statement_id, who.sign(ceremony), approval_id=asked.id
    )


def claim(asked: approving.Asked, **changes: Any) -> Any:
    from dataclasses import replace

    return admission.admit(replace(asked.request, **changes), asked.runtime)


def mint(asked: approving.Asked, claim_id: str = "c1", who: Any = None) -> dict[str, Any]:
    return grants.mint(who or asked.runtime, asked.id, claim_id)


def consume(
    asked: approving.Asked, granted: dict[str, Any], claim_id: str = "c1", **changes: Any
) -> dict[str, Any]:
    said = {"args_fingerprint": granted["args_fingerprint"], "runtime": asked.runtime} | changes
    return grants.consume(said["runtime"], granted["jti"], claim_id, said["args_fingerprint"])


def refused(code: str, status: int, work: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as error:
        work()
    assert (error.value.code, error.value.status) == (code, status), error.value
    return error.value


def used(asked: approving.Asked) -> bool:
    document = reading.read_approval(asked.runtime.scope, asked.id)
    assert document is not None
    return bool(document["used"])


# A plain claim -----------------------------------------------------------------------------------


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
    from operations.errors import DomainError

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
    from operations import leases
    from operations.errors import DomainError

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


# A tool server -----------------------------------------------------------------------------------


def test_a_tool_server_consumes_a_grant_once_and_gets_what_a_claim_gets() -> None:
    asked = approved(executor="billing-server")
    waits = claim(asked)
    assert (waits.status, waits.body["decision"]) == (202, "delegated")
    granted = mint(asked)
    assert jws.verify(granted["grant"], jwks.public_keys())["jti"] == granted["jti"]

    receipt = consume(asked, granted)

    assert receipt["decision"] == "execute"
    assert receipt["attempt_number"] == 1
    assert not receipt["replayed"]
    op = approving.operation(asked.op_id)
    assert (op.state, op.gate_used) == ("INVOKED", True)
    assert used(asked)


def test_n59_the_same_claim_gets_the_same_grant_and_the_same_receipt() -> None:
    asked = approved()
    assert mint(asked)["jti"] == mint(asked)["jti"]
    granted = mint(asked)
    first, again = consume(asked, granted), consume(asked, granted)
    assert again == first | {"replayed": True}
    assert Event.objects.filter(operation=asked.op_id, type="operation.invoked").count() == 1
    assert mint(asked)["jti"] == granted["jti"]


def test_another_claim_gets_nothing_once_it_is_consumed() -> None:
    asked = approved()
    granted = mint(asked)
    consume(asked, granted)
    refused("ALREADY_CONSUMED", 409, lambda: consume(asked, granted, "c2"))
    refused("NOT_APPROVED", 409, lambda: mint(asked, "c2"))


def test_a_newer_grant_kills_the_one_before() -> None:
    asked = approved()
    first = mint(asked, "c1")
    second = mint(asked, "c2")
    refused("GRANT_REVOKED", 410, lambda: consume(asked, first, "c1"))
    assert consume(asked, second, "c2")["attempt_number"] == 1


def test_n57_a_fingerprint_that_differs_is_an_incident() -> None:
    asked = approved()
    granted = mint(asked)
    wrong = granted["args_fingerprint"][:-1] + (
        "0" if granted["args_fingerprint"][-1] != "0" else "1"
    )
    refused("FINGERPRINT_MISMATCH", 412, lambda: consume(asked, granted, args_fingerprint=wrong))
    assert Incident.objects.get(operation=asked.op_id).kind == "args_conflict"
    assert consume(asked, granted)["attempt_number"] == 1


def test_n60_a_grant_that_is_over_is_refused() -> None:
    asked = approved()
    granted = mint(asked)
    Grant.objects.update(expires_at="2020-01-01T00:00:00Z")
    refused("GRANT_EXPIRED", 410, lambda: consume(asked, granted))
    assert consume(asked, mint(asked))["attempt_number"] == 1


def test_n56_n85_another_runtime_or_scope_cannot_use_it() -> None:
    asked = approved()
    granted = mint(asked)
    error = refused("FORBIDDEN", 403, lambda: consume(asked, granted, runtime=approving.runtime()))
    assert error.extra["check"] == "audience"
    for stranger in (approving.runtime("test"), approving.runtime("live", "other")):
        refused("NOT_FOUND", 404, lambda s=stranger: consume(asked, granted, runtime=s))  # type: ignore[misc]
        refused("NOT_FOUND", 404, lambda s=stranger: mint(asked, who=s))  # type: ignore[misc]
        assert reading.read_approval(stranger.scope, asked.id) is None
    assert consume(asked, granted)["attempt_number"] == 1


def test_n62_a_raised_epoch_kills_what_was_not_consumed() -> None:
    asked = approved()
    granted = mint(asked)
    with connection.cursor() as cur:
        cur.execute(
            "INSERT INTO approvals_grantepoch (id, epoch) VALUES (1, 2)"
            " ON CONFLICT (id) DO UPDATE SET epoch = 2"
        )
    refused("GRANT_REVOKED", 410, lambda: consume(asked, granted))


def test_n63_a_denial_or_a_cancelled_call_kills_the_grant() -> None:
    from operations import closing

    asked, cancelled = approved(), approved()
    granted, other = mint(asked), mint(cancelled)
    approve(asked, approving.person(), "deny")
    refused("GRANT_REVOKED", 410, lambda: consume(asked, granted))
    op = approving.operation(cancelled.op_id)
    closing.cancel(cancelled.runtime, op.idem_key)
    refused("GRANT_REVOKED", 410, lambda: consume(cancelled, other))


def test_nothing_is_granted_before_approval_or_for_an_unknown_request() -> None:
    asked = approving.ask()
    refused("NOT_APPROVED", 409, lambda: mint(asked))
    refused("NOT_FOUND", 404, lambda: grants.mint(asked.runtime, "apr_" + "0" * 26, "c"))
    refused("NOT_FOUND", 404, lambda: grants.consume(asked.runtime, "grt_x", "c", "f"))


def test_tombstones_are_for_ever() -> None:
    asked = approved()
    consume(asked, mint(asked))
    for sql in (
        "UPDATE approvals_grant SET consumed_at = NULL, consumed_claim_id = NULL",
        "UPDATE approvals_grant SET receipt = '{}'",
        "DELETE FROM approvals_grant",
    ):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cur:
            cur.execute(sql)


def test_a_consumed_grant_whose_holder_dies_is_unknown_like_any_other() -> None:
    asked = approved()
    from operations import leases

    granted = mint(asked)
    receipt = consume(asked, granted)
    leases.sending(asked.runtime, receipt["idem_key"], 1, "a token")
    with connection.cursor() as cur:
        cur.execute("SET LOCAL session_replication_role = replica")
        cur.execute(
            "UPDATE operations_operation SET lease_expires_at = now() - interval '1 s'"
            " WHERE id = %s",
            (asked.op_id,),
        )
        cur.execute(
            "UPDATE operations_attempt SET lease_expires_at = now() - interval '1 s'"
            " WHERE operation_id = %s",
            (asked.op_id,),
        )
        cur.execute(
            "UPDATE operations_standing SET due_at = now() - interval '1 s'"
            " WHERE operation_id = %s",
            (asked.op_id,),
        )
        cur.execute("SET LOCAL session_replication_role = origin")
    sweeps.run_once()
    assert approving.operation(asked.op_id).state == "UNKNOWN"


def test_the_jwk_set_names_the_key_that_signs_as_one_for_development() -> None:
    asked = approved()
    header = jws._json(mint(asked)["grant"].split(".")[0])
    names = [key["kid"] for key in jwks.jwks()["keys"]]
    assert header["kid"] in names
    assert header["kid"].startswith("dev:")
    assert all(set(key) == {"kty", "crv", "use", "alg", "kid", "x"} for key in jwks.jwks()["keys"])


def test_requests_of_cancelled_calls_are_withdrawn_by_the_sweep() -> None:
    from approvals import expiry
    from operations import closing

    asked = approving.ask()
    closing.cancel(asked.runtime, approving.operation(asked.op_id).idem_key)
    assert expiry.expire_due()["orphaned"] == 1
    assert ApprovalRequest.objects.get(id=asked.opened.id).status == "withdrawn"
