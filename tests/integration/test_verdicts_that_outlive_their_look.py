"""What a verdict says after its look: how long a provider may act, and when it is overtaken."""

import pytest
from django.db import connection, transaction

from approvals import resolutions
from operations import outcomes, settling
from operations.claims import OutcomeReport
from operations.errors import DomainError
from operations.models import Event, Operation
from tests.integration.test_resolutions import Unknown
from tests.support import approving

pytestmark = pytest.mark.django_db

DAY = 24 * 3600


def release(unknown: Unknown) -> None:
    with transaction.atomic(), connection.cursor() as cur:
        settling.release(cur, unknown.op_id, reason="signed", actor="user:tests")


def test_after_a_500_of_stripe_nobody_signs_a_release_for_a_day() -> None:
    unknown, reviewer = Unknown(), approving.person()
    unknown.sees("needs_human", lifetime_seconds=DAY)
    unknown.age(3600)
    said = resolutions.why_not(reviewer.user, unknown.id, "release")
    assert said is not None
    assert "may still be running" in said
    with pytest.raises(DomainError, match="still be on its way"):
        release(unknown)
    unknown.age(DAY)
    assert resolutions.why_not(reviewer.user, unknown.id, "release") is None
    release(unknown)
    assert unknown.row.state == "PENDING"


def report_committed(unknown: Unknown) -> Operation:
    report = OutcomeReport(
        attempt_number=1, attempt_id="try-1", outcome="committed", provider_ref="msg_1"
    )
    outcomes.report_outcome(unknown.runtime, unknown.row.idem_key, report)
    return Operation.objects.get(pk=unknown.op_id)


@pytest.mark.parametrize("kind", ["waiting", "absent", "needs_human", "in_flight"])
def test_a_commit_overtakes_a_verdict_that_had_not_seen_it(kind: str) -> None:
    unknown = Unknown()
    unknown.sees(kind)
    done = report_committed(unknown)
    assert (done.state, done.verdict) == ("COMMITTED", None)
    told = Event.objects.get(operation=unknown.op_id, type="operation.verdict")
    assert told.data["kind"] == kind


@pytest.mark.parametrize("kind", ["committed", "duplicate"])
def test_a_verdict_that_saw_the_effect_stays(kind: str) -> None:
    unknown = Unknown()
    unknown.sees(kind)
    assert report_committed(unknown).verdict["kind"] == kind
