"""The page of a duplicate: every object, and what is proposed, so that a person can compare."""

import pytest
from django.db import connection, transaction

from operations import incidents, rows
from operations.models import Incident
from tests.integration.pages import client_of
from tests.integration.test_pages_truth import seeded, text  # noqa: F401

pytestmark = pytest.mark.django_db


def test_a_duplicate_shows_both_objects_and_proposes_to_undo_one(seeded) -> None:  # noqa: F811
    op_id = seeded.operations["conflict"].pk
    objects = [
        {"id": ref, "kind": "payment_intent", "status": status, "amount_minor": 125_000,
         "currency": "EUR"}
        for ref, status in (("pi_first", "succeeded"), ("pi_<b>second</b>", "requires_capture"))
    ]  # fmt: skip
    with transaction.atomic(), connection.cursor() as cur:
        op = rows.lock(cur, op_id=op_id)
        assert op is not None
        incidents.open_incident(
            cur, "duplicate_effect", cause=f"{op_id}:two", actor="system:tests", op=op,
            details={"objects": objects, "proposal": "compensation"},
        )  # fmt: skip
    incident = Incident.objects.get(kind="duplicate_effect", cause=f"{op_id}:two")
    html = text(client_of(seeded, "operator"), f"/alerts/{incident.handle}/")
    assert "pi_first" in html
    assert "pi_&lt;b&gt;second&lt;/b&gt;" in html
    assert html.count("EUR 1,250.00") >= 2
    assert "Proposed: say which one stands" in html
    assert seeded.operations["conflict"].handle in html
    assert "{&#x27;id&#x27;" not in html
