"""Pages for every role: they open, change nothing, and leave no script or style in their markup."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.search import operations as search_operations
from console.search.operations import OperationSearch
from operations.models import Incident, Operation
from tests.integration.pages import addresses, client_of
from tests.support import furnished, seed
from tests.support.furnished import Seeded
from tests.support.markup import faults

pytestmark = pytest.mark.django_db

_COUNTED = (
    "operations_operation", "operations_event", "operations_attempt", "operations_incident",
    "approvals_approvalrequest", "approvals_decision", "approvals_pendingstatement",
    "reconcilers_duelook", "reconcilers_finding",
)  # fmt: skip


@pytest.fixture
def seeded() -> Seeded:
    return furnished.everything()


def _state() -> dict[str, tuple[object, ...]]:
    found = {}
    with connection.cursor() as cur:
        for table in _COUNTED:
            version = "coalesce(sum(version), 0)" if table == "operations_operation" else "0"
            cur.execute(f"SELECT count(*), {version} FROM {table}")
            found[table] = cur.fetchone()
    return found


@pytest.mark.parametrize("role", seed.ROLES)
def test_every_page_opens_for_every_role_and_changes_nothing(seeded: Seeded, role: str) -> None:
    client = client_of(seeded, role)
    before = _state()
    for address in addresses(seeded):
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.status_code)
        assert answer["Cache-Control"] == "private, no-cache", address
        assert "script-src" in answer["Content-Security-Policy"], address
        assert faults(answer.content.decode()) == [], address
    assert _state() == before


def test_whoever_has_not_signed_in_is_led_to_the_login_and_back(seeded: Seeded) -> None:
    for address in addresses(seeded):
        answer = Client().get(address)
        assert answer.status_code == 302, address
        assert answer["Location"].startswith("/login/?next=/"), address


def test_post_only_addresses_refuse_a_get(seeded: Seeded) -> None:
    client = client_of(seeded, "reviewer")
    incident = Incident.objects.first()
    assert incident is not None
    operation = seeded.operations["unasked"].handle
    for address in (
        "/unknown/next/", f"/ops/{operation}/ask/", "/logout/", "/environment/",
        f"/alerts/{incident.handle}/acknowledge/", f"/alerts/{incident.handle}/resolve/",
    ):  # fmt: skip
        assert client.get(address).status_code == 405, address


def test_a_form_without_its_token_changes_nothing(seeded: Seeded) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(seeded.people["operator"])
    answer = client.post("/unknown/next/")
    assert answer.status_code == 403
    assert "This form has expired" in answer.content.decode()


def test_parts_of_pages_are_served_alone(seeded: Seeded) -> None:
    client = client_of(seeded, "reviewer")
    operation = seeded.operations["waiting_look"].handle
    assert seeded.approval is not None
    for address, part in (
        ("/", "board"), ("/ops/", "rows"), ("/unknown/", "queue"), ("/approvals/", "queue"),
        ("/alerts/", "queue"), ("/runs/", "rows"), ("/reconcilers/", "health"),
        ("/welcome/", "steps"),
        (f"/ops/{operation}/", "facts"), (f"/ops/{operation}/", "story"),
        (f"/ops/{operation}/", "ladder"), (f"/approvals/{seeded.approval.handle}/", "actions"),
        (f"/approvals/{seeded.approval.handle}/", "status"),
    ):  # fmt: skip
        headers = {
            "HX-Request": "true", "HX-Request-Type": "partial", "HX-Target": f"div#{part}",
        }  # fmt: skip
        answer = client.get(address, headers=headers)
        html = answer.content.decode()
        assert answer.status_code == 200, (address, part)
        assert "<html" not in html, (address, part)
        assert html.strip(), (address, part)
        assert "script-src" in answer["Content-Security-Policy"]


def test_a_part_nobody_knows_is_answered_with_the_whole_page(seeded: Seeded) -> None:
    headers = {"HX-Request": "true", "HX-Request-Type": "partial", "HX-Target": "div#elsewhere"}
    assert "<html" in client_of(seeded, "viewer").get("/ops/", headers=headers).content.decode()


def test_what_is_not_there_is_a_page_that_says_so(seeded: Seeded) -> None:
    client = client_of(seeded, "viewer")
    absent = "0" * 26
    for address in (f"/ops/op_{absent}/", f"/approvals/apr_{absent}/", f"/runs/run_{absent}/",
                    f"/alerts/inc_{absent}/", "/tools/no.such.tool/", "/nowhere/"):  # fmt: skip
        answer = client.get(address)
        assert answer.status_code == 404, address
        assert "There is nothing at this address" in answer.content.decode()


def test_a_part_asked_for_after_the_session_has_ended_is_refused(seeded: Seeded) -> None:
    del seeded
    answer = Client().get("/ops/", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
    assert answer.status_code == 401
    assert b"<form" not in answer.content


#: What bounds a statement in time reads nothing.
_BRACKETS = ("SAVEPOINT", "RELEASE SAVEPOINT", "SET LOCAL")


def test_pages_read_little_and_never_count_or_skip_without_bound(seeded: Seeded) -> None:
    client = client_of(seeded, "reviewer")
    for address in addresses(seeded):
        with CaptureQueriesContext(connection) as captured:
            client.get(address)
        reads = [q for q in captured.captured_queries if not q["sql"].startswith(_BRACKETS)]
        # Five ways to settle an UNKNOWN are each judged by their own rules, which read anew.
        assert len(reads) <= 66, (address, len(reads))
        for query in captured:
            assert " OFFSET " not in query["sql"], address


def test_a_query_that_takes_too_long_is_stopped_and_says_what_to_do(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(self: OperationSearch) -> object:
        return Operation.objects.extra(where=["pg_sleep(0.2) IS NOT NULL"])

    monkeypatch.setattr(search_operations, "SLOWEST_MILLISECONDS", 50)
    monkeypatch.setattr(OperationSearch, "rows", slow)
    html = client_of(seeded, "viewer").get("/ops/?q=tool:charge").content.decode()
    assert "This search takes too long and was stopped." in html
