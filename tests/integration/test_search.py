"""The search finds what it says, by the very conditions that pages count with."""

import pytest
from django.test import Client

from console.presentation import times
from console.queries import clock
from console.search.fields import FIELDS, Viewer
from console.search.operations import PAGE, OperationSearch
from operations import ids
from tests.integration.pages import client_of
from tests.support import furnished, seed
from tests.support.furnished import Seeded

pytestmark = pytest.mark.django_db


@pytest.fixture
def seeded() -> Seeded:
    return furnished.everything()


def search(query: str) -> OperationSearch:
    return OperationSearch(query, Viewer(times.zone_of("Europe/Berlin"), clock.now()))


def names(seeded: Seeded, query: str) -> set[str]:
    found = search(query)
    assert found.problem is None, found.problem
    by_id = {row.pk: name for name, row in seeded.operations.items()}
    return {by_id[row.pk] for row in found.rows()}


UNKNOWN = {"waiting_look", "needs_person", "conflict", "unreachable", "unasked"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state:unknown", UNKNOWN),
        ("state:unknown tool:charge", UNKNOWN - {"needs_person"}),
        ("state:running,failed", {"running", "failed", "denied"}),
        (
            "-state:unknown tool:stripe.charge",
            {"committed", "running", "failed", "pending", "retried"},
        ),
        ("attempt:>1", {"retried"}),
        ("is:ready", {"needs_person"}),
        ("is:conflict", {"conflict"}),
        ("is:unreachable", {"unreachable"}),
        ("is:waiting", {"waiting_look", "unasked"}),
        ("state:waiting", {"waiting"}),
        ("has:incident", {"failed", "pending"}),
        ("inc:args_conflict", {"pending"}),
        ("has:evidence", UNKNOWN - {"unasked"}),
        ("is:replayed", {"looked_up", "committed"}),
        ("run:run_sync_5 -state:running", {"failed", "pending", "retried"}),
        ("amount:88000JPY", {"conflict"}),
        ("amount:>=1250.00EUR tool:charge state:unknown", {"unasked"}),
        ("amount:900EUR..1000EUR", {"waiting_look"}),
        ("cur:jpy", {"conflict", "unreachable"}),
        ("pid:pi_3QmZ81", {"committed"}),
        ("pi_3QmZ81", {"committed"}),
        ("run_payables_31", {"waiting", "approved", "denied"}),
        ("state:denied", {"denied"}),
        ("class:safe", {"looked_up"}),
        ("agent:pay* created:-1h state:committed", {"looked_up", "committed", "retried"}),
        ("created:today age:<1h attempt:>0 class:safe", {"looked_up"}),
        ("age:>1h", set()),
        ("env:live", set()),
    ],
)
def test_queries_find_what_they_say(seeded: Seeded, query: str, expected: set[str]) -> None:
    assert names(seeded, query) == expected
    assert search(query).count().number == len(expected)


def test_every_field_is_usable_and_has_an_example() -> None:
    for name, field in FIELDS.items():
        if name in {"op", "text", "pid", "key"}:
            continue
        assert search(field.example).problem is None, name


@pytest.mark.parametrize(
    "query",
    ["state:unknwn", "amount:12", "amount:1.234EUR", "age:soon", "created:then", "op:xyz",
     "inc:nothing", "tool:>5", "attempt:many"],
)  # fmt: skip
def test_a_bad_value_is_an_error_and_finds_nothing(query: str) -> None:
    found = search(query)
    assert found.problem is not None
    assert found.count().number == 0


def test_the_error_is_shown_with_a_link_to_the_suggestion(seeded: Seeded) -> None:
    html = client_of(seeded, "viewer").get("/ops/?q=state:unknwn").content.decode()
    assert "“unknwn” is no value of “state:”." in html
    assert '<a href="?q=state%3Aunknown">state:unknown</a>' in html


def test_where_nothing_matches_each_chip_can_be_dropped(seeded: Seeded) -> None:
    html = client_of(seeded, "viewer").get("/ops/?q=state:unknown+tool:nothing").content.decode()
    assert "Nothing matches." in html
    assert "Without “tool: nothing”: 5" in html


def test_pages_are_cut_by_key_and_lose_nothing() -> None:
    seed.catalogue()
    who = seed.runtime()
    made = [
        seed.row(seed.admit(seed.call(f"run_{number}", 1, "crm.lookup", {}), who)).handle
        for number in range(PAGE + 7)
    ]
    first = search("tool:lookup").page()
    second = search("tool:lookup").page(after=ids.parse_handle("op", first.older or ""))
    assert [row.handle for row in [*first.rows, *second.rows]] == list(reversed(made))
    assert (first.newer, second.older) == (None, None)
    back = search("tool:lookup").page(before=ids.parse_handle("op", second.newer or ""))
    assert [row.handle for row in back.rows] == [row.handle for row in first.rows]


def test_go_leads_from_any_id_to_its_page(seeded: Seeded) -> None:
    client = client_of(seeded, "viewer")
    committed = seeded.operations["committed"]
    assert seeded.approval is not None
    page = f"/ops/{committed.handle}/"
    for wanted in (committed.handle, committed.handle.upper().replace("OP_", "op_"),
                   committed.idem_key, committed.idem_key[:12], "pi_3QmZ81"):  # fmt: skip
        assert client.get(f"/go/{wanted}")["Location"] == page, wanted
    assert client.get("/go/", {"q": seeded.approval.handle})["Location"].startswith("/approvals/")
    assert client.get("/go/run_sync_5")["Location"].startswith("/runs/run_")
    assert client.get("/go/approvals")["Location"] == "/approvals/"
    nothing = client.get("/go/nothing-like-that")
    assert nothing.status_code == 404
    assert "Looked for it among" in nothing.content.decode()


def test_preferences_are_kept_and_bad_ones_refused(seeded: Seeded) -> None:
    client: Client = client_of(seeded, "viewer")
    good = {"time_zone": "Asia/Tokyo", "theme": "dark"}
    assert client.post("/me/", good).status_code == 302
    html = client.get("/ops/").content.decode()
    assert '<html lang="en" class="dark">' in html
    assert 'data-shortcuts="off"' in html
    assert "JST" in html
    assert client.post("/me/", good | {"time_zone": "Mars/Base"}).status_code == 422
