"""A tool server executes for a runtime: one grant, one receipt, one attempt."""

import pytest
from django.db import IntegrityError, connection, transaction

from approvals import admission, expiry, grants, jwks, jws, reading
from approvals.models import ApprovalRequest, Grant
from operations import closing, leases, sweeps
from operations.models import Event, Incident
from tests.support import approving
from tests.support.granting import approve, approved, claim, consume, mint, refused, used

pytestmark = pytest.mark.django_db


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
    asked = approving.ask()
    closing.cancel(asked.runtime, approving.operation(asked.op_id).idem_key)
    assert expiry.expire_due()["orphaned"] == 1
    assert ApprovalRequest.objects.get(id=asked.opened.id).status == "withdrawn"


def test_a_delegated_call_that_nobody_need_approve_is_granted_all_the_same() -> None:
    runtime = approving.runtime("test")
    request = approving.claim(executor="billing-server")
    first = admission.admit(request, runtime).body
    again = admission.admit(request, runtime).body
    assert first["decision"] == again["decision"] == "delegated"
    assert first["approval"]["id"] == again["approval"]["id"]
    assert ApprovalRequest.objects.get().quorum == 0
    granted = grants.mint(runtime, first["approval"]["id"], "c1")
    receipt = grants.consume(runtime, granted["jti"], "c1", first["args_fingerprint"])
    assert (receipt["decision"], receipt["attempt_number"]) == ("execute", 1)
