"""People settle what is UNKNOWN: signed over the evidence, and by two where one may be wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from approvals import admission, resolutions
from approvals.errors import Refused
from approvals.models import PendingStatement, Resolution
from approvals.signing import Ceremony
from operations import outcomes, settling
from operations.claims import OutcomeReport
from operations.models import Event
from tests.support import approving

pytestmark = pytest.mark.django_db


class Unknown:
    """An operation whose only attempt timed out."""

    def __init__(self, **changes: Any) -> None:
        self.runtime = approving.runtime("test")
        request = approving.claim(tool="mail.send", attempt_id="try-1", **changes)
        answer = admission.admit(request, self.runtime)
        assert answer.status == 201, answer
        report = OutcomeReport(attempt_number=1, attempt_id="try-1", outcome="unknown")
        outcomes.report_outcome(self.runtime, answer.body["idem_key"], report)
        self.id = answer.body["operation"]["id"]
        self.request = request
        from operations.ids import parse_handle

        found = parse_handle("op", self.id)
        assert found is not None
        self.op_id = found

    @property
    def row(self) -> Any:
        return approving.operation(self.op_id)

    def age(self, seconds: int) -> None:
        """Everything its attempts did was that much earlier."""
        with connection.cursor() as cur:
            cur.execute("SET LOCAL session_replication_role = replica")
            cur.execute(
                "UPDATE operations_attempt SET emits_until = emits_until"
                " - make_interval(secs => %s) WHERE operation_id = %s",
                (seconds, self.op_id),
            )
            cur.execute("SET LOCAL session_replication_role = origin")

    def sees(self, kind: str, **members: Any) -> None:
        """A verdict of the reconciler."""
        with transaction.atomic(), connection.cursor() as cur:
            verdict = {"kind": kind, "code": "x", "sentence": "…", "evidence": 1, **members}
            settling.set_verdict(cur, self.op_id, verdict, actor="system:reconciler")


def begin(unknown: Unknown, who: approving.Person, choice: str, **said: Any) -> Ceremony:
    said = {"reason": "I asked the provider's support."} | said
    return resolutions.start(who.user, who.session, unknown.id, choice, key=who.key, **said)


def end(who: approving.Person, ceremony: Ceremony) -> resolutions.Resolved:
    return resolutions.finish(who.user, who.session, ceremony.statement_id, who.sign(ceremony))


def settle(unknown: Unknown, who: approving.Person, choice: str, **said: Any) -> Any:
    return end(who, begin(unknown, who, choice, **said))


def refused(code: str, work: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as error:
        work()
    assert error.value.code == code, error.value
    return error.value


def test_it_happened_is_signed_with_the_providers_id() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    done = settle(unknown, operator, "settle-committed", provider_ref="msg_42")
    assert (done.applied, done.state) == (True, "COMMITTED")
    assert unknown.row.provider_ref == "msg_42"
    signed = Event.objects.get(operation=unknown.op_id, type="resolution.signed")
    assert signed.data["choice"] == "settle-committed"
    resolution = Resolution.objects.get()
    predicate = _predicate(resolution)
    assert predicate["provider_ref"] == "msg_42"
    assert predicate["evidence"]["sha256"] == resolution.evidence_sha256


def _predicate(resolution: Resolution) -> dict[str, Any]:
    import json

    return dict(json.loads(bytes(resolution.statement))["predicate"])


def test_where_nothing_can_be_looked_up_a_reason_serves_for_the_id() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    refused("VALIDATION_ERROR", lambda: begin(unknown, operator, "settle-committed", reason=""))
    assert settle(unknown, operator, "settle-committed").state == "COMMITTED"


def test_a_stock_tool_checks_a_settlement_too(tmp_path: Any) -> None:
    from approvals import keys
    from approvals.encodings import b64

    unknown, operator = Unknown(), approving.person("operator")
    settle(unknown, operator, "settle-committed", provider_ref="msg_42")
    row = Resolution.objects.get()
    document = {
        "sshsig": row.sshsig,
        "allowed_signers": keys.allowed_signers(row.user.email, row.key.ssh_public_key),
        "reviewer": row.user.email,
        "message_b64": b64(bytes(row.message)),
    }
    assert approving.stock_verify(document, tmp_path)


def test_release_is_refused_while_a_request_of_ours_may_still_run() -> None:
    unknown, reviewer = Unknown(), approving.person()
    error = refused("NOT_RELEASABLE", lambda: begin(unknown, reviewer, "release"))
    assert "until" in error.detail
    assert resolutions.why_not(reviewer.user, unknown.id, "release") == error.detail
    unknown.age(3600)
    assert resolutions.why_not(reviewer.user, unknown.id, "release") is None


@pytest.mark.parametrize("kind", ["committed", "in_flight", "conflict", "duplicate"])
def test_release_is_refused_against_the_evidence(kind: str) -> None:
    unknown, reviewer = Unknown(), approving.person()
    unknown.age(3600)
    unknown.sees(kind)
    refused("NOT_RELEASABLE", lambda: begin(unknown, reviewer, "release"))


def test_release_without_a_settle_point_takes_a_second_blind_person() -> None:
    unknown = Unknown()
    first, second = approving.person(), approving.person()
    unknown.age(3600)
    done = settle(unknown, first, "release")
    assert (done.applied, done.state) == (False, "UNKNOWN")
    refused("ALREADY_DECIDED", lambda: begin(unknown, first, "release"))
    assert unknown.row.state == "UNKNOWN"

    done = settle(unknown, second, "release")

    assert (done.applied, done.state) == (True, "PENDING")
    assert Resolution.objects.filter(applied=True).count() == 2
    released = Event.objects.get(operation=unknown.op_id, type="operation.released")
    assert released.data["reason"] == "signed"
    assert len(released.data["evidence"]["signed"]) == 2


def test_two_people_who_choose_differently_move_nothing() -> None:
    unknown = Unknown()
    first, second = approving.person(), approving.person()
    unknown.age(3600)
    settle(unknown, first, "release")
    assert not settle(unknown, second, "settle-absent").applied
    assert unknown.row.state == "UNKNOWN"


def test_an_early_it_did_not_happen_takes_two_and_a_late_one_takes_one() -> None:
    early, late = Unknown(), Unknown()
    first, second = approving.person(), approving.person()
    _with_reconciler("mail.send")
    early.sees("waiting", settles_at="2099-01-01T00:00:00Z", code="before_settle_point")
    late.sees("waiting", settles_at="2020-01-01T00:00:00Z", code="one_more_read")
    assert not settle(early, first, "settle-absent").applied
    done = settle(early, second, "settle-absent")
    assert (done.applied, done.state) == (True, "FAILED")
    assert early.row.failure == "settled_absent"
    done = settle(late, first, "settle-absent")
    assert (done.applied, late.row.failure) == (True, "settled_absent")


def _with_reconciler(tool: str) -> None:
    from tests.support import claiming

    claiming.publish({"name": tool, "reconciler": "stripe", "provider": "stripe"})


def test_it_did_not_happen_against_the_evidence_takes_two() -> None:
    unknown, first = Unknown(), approving.person()
    _with_reconciler("mail.send")
    unknown.sees("conflict", settles_at="2020-01-01T00:00:00Z")
    assert not settle(unknown, first, "settle-absent").applied


def test_evidence_that_changes_while_signing_makes_it_stale() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    ceremony = begin(unknown, operator, "settle-committed", provider_ref="msg_42")
    unknown.sees("conflict", objects=["msg_43"])
    error = refused("STATEMENT_STALE", lambda: end(operator, ceremony))
    assert "changed" in error.detail
    assert unknown.row.state == "UNKNOWN"
    again = begin(unknown, operator, "settle-committed", provider_ref="msg_43")
    assert end(operator, again).state == "COMMITTED"


def test_a_look_that_changes_no_verdict_makes_nothing_stale() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    unknown.sees("waiting", next_check_at="2026-12-01T00:00:00Z")
    ceremony = begin(unknown, operator, "settle-committed", provider_ref="msg_42")
    unknown.sees("waiting", next_check_at="2026-12-01T01:00:00Z", evidence=2)
    assert end(operator, ceremony).state == "COMMITTED"


def test_the_first_signature_is_void_once_the_evidence_changed() -> None:
    unknown = Unknown()
    first, second = approving.person(), approving.person()
    unknown.age(3600)
    settle(unknown, first, "release")
    unknown.sees("cannot_look")
    assert not settle(unknown, second, "release").applied
    assert settle(unknown, first, "release").applied


def test_an_answer_is_tried_once_and_the_same_one_gives_the_same_record() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    ceremony = begin(unknown, operator, "settle-committed", provider_ref="msg_42")
    answer = operator.sign(ceremony)
    finish = lambda: resolutions.finish(  # noqa: E731
        operator.user, operator.session, ceremony.statement_id, answer
    )
    first, again = finish(), finish()
    assert again.replayed
    assert first.decision_id == again.decision_id
    assert Resolution.objects.count() == 1


def test_altered_bytes_are_another_challenge() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    ceremony = begin(unknown, operator, "settle-committed", provider_ref="msg_42")
    answer = operator.sign(ceremony)
    pending = PendingStatement.objects.latest("created_at")
    pending.statement = bytes(pending.statement).replace(b"msg_42", b"msg_99")
    pending.save()
    error = refused(
        "SIGNATURE_REFUSED",
        lambda: resolutions.finish(operator.user, operator.session, ceremony.statement_id, answer),
    )
    assert error.extra["check"] == "challenge"
    assert Event.objects.filter(type="resolution.refused").exists()


def test_a_decision_statement_cannot_settle_anything() -> None:
    from approvals import decisions

    reviewer, asked = approving.person(), approving.ask()
    ceremony = decisions.start(reviewer.user, "s", asked.id, "approve", key=reviewer.key)
    refused(
        "STATEMENT_STALE",
        lambda: resolutions.finish(
            reviewer.user, "s", ceremony.statement_id, reviewer.sign(ceremony)
        ),
    )


def test_what_is_not_unknown_cannot_be_settled() -> None:
    unknown, reviewer = Unknown(), approving.person()
    settle(unknown, reviewer, "settle-committed", provider_ref="msg_42")
    refused(
        "NOT_UNKNOWN",
        lambda: begin(unknown, reviewer, "settle-committed", provider_ref="msg_42"),
    )


@pytest.mark.parametrize("role", ["viewer", "admin", "auditor"])
def test_only_operators_and_reviewers_settle(role: str) -> None:
    unknown, reviewer = Unknown(), approving.person()
    someone = approving.user(role)
    error = refused(
        "FORBIDDEN",
        lambda: resolutions.start(
            someone, "s", unknown.id, "settle-committed", key=reviewer.key, provider_ref="x"
        ),
    )
    assert f"you are {role}" in error.detail


def test_operators_settle_up_to_their_tier() -> None:
    unknown, operator, reviewer = Unknown(), approving.person("operator"), approving.person()
    approving.publish({"id": "big", "match": {"tool": "mail.*"}, "tier": "T3"})
    refused("FORBIDDEN", lambda: begin(unknown, operator, "settle-committed"))
    assert settle(unknown, reviewer, "settle-committed").applied
