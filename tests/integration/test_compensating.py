"""A person opens the call that undoes an UNKNOWN one, signed; a runtime claims it when it may."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from approvals import admission, attachments, resolutions
from approvals.errors import Refused
from approvals.models import Resolution
from operations import settling
from operations.canonical import parse_strict
from operations.claims import ClaimRequest
from operations.errors import DomainError
from operations.models import Event, Operation
from tests.integration.test_resolutions import Unknown, begin, end, refused
from tests.integration.test_signing_pages import data, hidden, signed_in
from tests.support import approving

pytestmark = pytest.mark.django_db

UNDO = '{"message": "msg_42", "why": "sent twice"}'


def compensate(unknown: Unknown, who: approving.Person) -> resolutions.Resolved:
    undoing = attachments.undoing("mail.recall", UNDO)
    return end(who, begin(unknown, who, "compensate", compensation=undoing))


def opened(unknown: Unknown) -> Any:
    return Operation.objects.get(compensates=unknown.op_id)


def settle_committed(unknown: Unknown) -> None:
    with transaction.atomic(), connection.cursor() as cur:
        settling.settle_committed(cur, unknown.op_id, actor="system:test", provider_ref="msg_42")


def claim_of(unknown: Unknown, args_raw: str) -> ClaimRequest:
    """As a runtime finds it in its run."""
    row = opened(unknown)
    return replace(
        unknown.request,
        tool=row.tool,
        tool_call_id=row.tool_call_id,
        args=parse_strict(args_raw),
        args_raw=args_raw.encode(),
        attempt_id="undo-1",
    )


def test_it_stays_unknown_and_a_linked_call_opens() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    done = compensate(unknown, operator)
    assert (done.applied, done.state) == (True, "UNKNOWN")
    undo = opened(unknown)
    assert (undo.state, undo.tool, undo.waiting_on) == ("PENDING", "mail.recall", "look")
    assert undo.run_id == unknown.row.run_pk
    predicate = json.loads(bytes(Resolution.objects.get().statement))["predicate"]
    assert predicate["compensation"]["tool"] == "mail.recall"
    assert f"jcs-sha256:{predicate['compensation']['args_sha256']}" == undo.args_fingerprint
    told = Event.objects.get(operation=unknown.op_id, type="operation.compensation_opened")
    assert told.data["compensation"] == undo.handle
    assert told.actor == f"user:{operator.user.id}"


def test_it_blocks_a_release_and_a_second_one() -> None:
    unknown, first, second = Unknown(), approving.person(), approving.person()
    compensate(unknown, first)
    unknown.age(3600)
    error = refused("NOT_RELEASABLE", lambda: begin(unknown, second, "release"))
    assert "compensation" in error.detail
    refused("NOT_READY", lambda: compensate(unknown, second))


def test_a_runtime_claims_it_once_the_original_is_committed() -> None:
    unknown = Unknown()
    compensate(unknown, approving.person())
    asked = claim_of(unknown, UNDO)
    assert admission.admit(asked, unknown.runtime).body["decision"] == "await_reconciliation"
    settle_committed(unknown)
    granted = admission.admit(asked, unknown.runtime)
    assert granted.status == 201
    assert granted.body["operation"]["compensates"] == unknown.row.idem_key


def test_a_runtime_that_knows_only_the_original_is_given_the_signed_arguments() -> None:
    unknown = Unknown()
    compensate(unknown, approving.person())
    settle_committed(unknown)
    granted = admission.admit(claim_of(unknown, unknown.request.args_raw.decode()), unknown.runtime)
    assert granted.status == 201
    assert json.loads(granted.body["args_raw"]) == json.loads(UNDO)


def test_other_arguments_are_a_conflict() -> None:
    unknown = Unknown()
    compensate(unknown, approving.person())
    with pytest.raises(DomainError) as error:
        admission.admit(claim_of(unknown, '{"message": "msg_43"}'), unknown.runtime)
    assert error.value.code == "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS"


def test_it_is_cancelled_when_nothing_happened_and_may_be_opened_anew_never() -> None:
    unknown, reviewer = Unknown(), approving.person()
    compensate(unknown, reviewer)
    with transaction.atomic(), connection.cursor() as cur:
        settling.settle_absent(
            cur, unknown.op_id, actor=f"user:{reviewer.user.id}", failure="settled_absent"
        )
    assert (opened(unknown).state, opened(unknown).failure) == ("FAILED", "cancelled")
    refused("NOT_UNKNOWN", lambda: compensate(unknown, reviewer))


@pytest.mark.parametrize(
    ("tool", "args", "pointer"),
    [("", "{}", "/tool"), ("two words", "{}", "/tool"), ("mail.recall", '{"a":1,"a":2}', "/args")],
)
def test_what_can_be_no_call_is_refused_with_its_field(tool: str, args: str, pointer: str) -> None:
    with pytest.raises(Refused) as error:
        attachments.undoing(tool, args)
    assert error.value.extra["pointer"] == pointer


def test_from_the_operations_page_to_both_operations() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    client: Client = signed_in(operator.user)
    start = reverse("settle-start", args=[unknown.id])
    said = {"choice": "compensate", "reason": "it went out twice", "tool": "mail.recall"}
    wrong = client.post(start, said | {"args": "{"})
    assert wrong.status_code == 422
    assert "it went out twice" in wrong.content.decode()
    html = client.post(start, said | {"args": UNDO}).content.decode()
    assert "The call that undoes it" in html
    assert "sent twice" in html
    answer = operator.passkey.get(json.loads(data(html, "options")))
    done = client.post(
        reverse("settle-finish", args=[unknown.id]),
        {"statement": hidden(html, "statement"), "answer": json.dumps(answer)},
    )
    assert "is open" in client.get(done["Location"]).content.decode()
    undo = opened(unknown)
    original_page = client.get(reverse("operation", args=[unknown.id])).content.decode()
    undo_page = client.get(reverse("operation", args=[undo.handle])).content.decode()
    assert reverse("operation", args=[undo.handle]) in original_page
    assert reverse("operation", args=[unknown.id]) in undo_page
