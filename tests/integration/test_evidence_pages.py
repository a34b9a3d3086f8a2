"""Taking evidence away: by a POST, by those who may, and never unlogged."""

import csv
import io
import json
from hashlib import sha256

import countersign_verify as verifier
import pytest
from django.test import Client

from approvals import bundles
from operations.models import Event
from tests.support import approving, granting, sealing
from tests.support.committed import _django_db_helper  # noqa: F401

pytestmark = pytest.mark.django_db


def signed_in(role: str) -> Client:
    client = Client()
    client.force_login(approving.user(role))
    return client


@pytest.fixture
def decided() -> approving.Asked:
    asked = granting.approved()
    granting.claim(asked)
    sealing.seal()
    return asked


@pytest.mark.parametrize("role", ["operator", "reviewer", "auditor"])
def test_a_bundle_is_downloaded_logged_and_valid(decided: approving.Asked, role: str) -> None:
    client = signed_in(role)
    operation = approving.operation(decided.op_id)
    for address in (f"/ops/{operation.handle}/bundle/", f"/approvals/{decided.id}/bundle/"):
        answer = client.post(address)
        assert answer.status_code == 200, answer.content
        assert answer.headers["Content-Type"] == "application/zip"
        assert "attachment" in answer.headers["Content-Disposition"]
        assert answer.headers["Cache-Control"].startswith(("no-store", "private", "max-age=0"))
        run = verifier.Verifier(verifier.unpack(answer.content), bundles.trust())
        assert run.run() == 0, run.results
    assert Event.objects.filter(type="evidence.exported").count() == 2


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_who_may_not_see_arguments_gets_no_bundle_and_reads_why(
    decided: approving.Asked, role: str
) -> None:
    client = signed_in(role)
    operation = approving.operation(decided.op_id)
    assert client.post(f"/ops/{operation.handle}/bundle/").status_code == 403
    page = client.get(f"/ops/{operation.handle}/evidence/").content.decode()
    assert "Download evidence bundle" not in page
    assert "To reveal masked values needs" in page
    assert not Event.objects.filter(type="evidence.exported").exists()


def test_a_get_takes_nothing_away(decided: approving.Asked) -> None:
    client = signed_in("auditor")
    operation = approving.operation(decided.op_id)
    for address in (f"/ops/{operation.handle}/bundle/", "/audit/export/"):
        assert client.get(address).status_code == 405


def test_a_waiting_approval_shows_nobody_what_others_said() -> None:
    asked = approving.ask()
    sealing.seal()
    answer = signed_in("reviewer").post(f"/approvals/{asked.id}/bundle/")
    assert answer.status_code == 409
    assert "still waits" in answer.content.decode()


def test_the_audit_is_exported_exactly_and_matches_its_header(decided: approving.Asked) -> None:
    answer = signed_in("auditor").post("/audit/export/", {"type": "approval.", "format": "ndjson"})
    head, _, body = answer.content.partition(b"\n")
    header = json.loads(head)
    assert header["sha256"] == sha256(body).hexdigest()
    rows = [json.loads(line) for line in body.splitlines()]
    assert header["rows"] == len(rows) == 1
    assert rows[0]["type"] == "approval.decided"
    noted = Event.objects.get(type="audit.exported")
    assert noted.data["sha256"] == header["sha256"]
    for role in ("viewer", "reviewer", "admin"):
        assert signed_in(role).post("/audit/export/").status_code == 403


def test_n53_a_spreadsheet_meets_no_formula(decided: approving.Asked) -> None:
    Event.objects.create(
        environment="live", type="test.fact", actor='=HYPERLINK("//evil")', data={"a": 1}
    )
    sealing.seal()
    answer = signed_in("auditor").post("/audit/export/", {"type": "test.", "format": "csv"})
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["actor"] for row in rows] == ['\'=HYPERLINK("//evil")']
    ndjson = signed_in("auditor").post("/audit/export/", {"type": "test."}).content
    assert json.loads(ndjson.splitlines()[1])["actor"] == '=HYPERLINK("//evil")'
