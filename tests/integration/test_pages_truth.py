"""What pages say: counts are lists, three facts stay three, and the unknown is never a failure."""

import re

import pytest
from django.test import Client

from console.queries import triage
from operations.models import Incident, Operation
from tests.integration.pages import client_of
from tests.support import furnished
from tests.support.furnished import TRICKY, Seeded

pytestmark = pytest.mark.django_db


@pytest.fixture
def seeded() -> Seeded:
    return furnished.everything()


@pytest.fixture
def reviewer(seeded: Seeded) -> Client:
    return client_of(seeded, "reviewer")


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def rows(html: str) -> int:
    return len(re.findall(r"<(?:tr|li)[^>]*data-row", html))


def test_each_badge_counts_the_list_behind_it(reviewer: Client) -> None:
    for chosen in ("", "live", "test"):
        reviewer.post("/environment/", {"environment": chosen})
        rail = text(reviewer, "/navigation/")
        for place in ("unknown", "approvals", "alerts"):
            link = re.search(rf'href="(/{place}/[^"]*)".*?</a>', rail, re.DOTALL)
            assert link is not None
            badge = re.search(r'class="badge[^"]*">(\d+)<', link[0])
            listed = rows(text(reviewer, link[1]))
            assert listed == (int(badge[1]) if badge else 0), (place, chosen)


def test_each_tile_counts_the_list_behind_it(reviewer: Client) -> None:
    board = text(reviewer, "/")
    tiles = re.findall(
        r'<li class="tile tile-(\w+)[^>]*>\s*<a href="([^"]+)">.*?tile-number">(\d+)<',
        board,
        re.DOTALL,
    )
    assert len(tiles) == 4
    for key, address, number in tiles:
        if key != "running":
            assert rows(text(reviewer, address.replace("&amp;", "&"))) == int(number), key


def test_each_tab_of_the_unknown_queue_counts_its_rows(reviewer: Client) -> None:
    html = text(reviewer, "/unknown/")
    tabs = re.findall(r'<a href="(\?q=[^"]*)"[^>]*>([^<]+)<span class="count">(\d+)', html)
    assert [name.strip() for _, name, _ in tabs] == [
        "All", *(label for _, label, _ in triage.KINDS)
    ]  # fmt: skip
    for query, name, number in tabs:
        assert rows(text(reviewer, f"/unknown/{query}")) == int(number), name
    assert sum(int(number) for _, _, number in tabs[1:]) == int(tabs[0][2])


def test_each_status_of_approvals_counts_its_rows(reviewer: Client) -> None:
    html = text(reviewer, "/approvals/")
    tabs = re.findall(r'<a href="(\?status=[^"]*)"[^>]*>[^<]+<span class="count">(\d+)', html)
    assert len(tabs) == 6
    for query, number in tabs:
        listed = text(reviewer, f"/approvals/{query.replace('&amp;', '&')}")
        assert rows(listed) == int(number), query


def test_every_operation_shows_decision_claim_and_outcome(seeded: Seeded, reviewer: Client) -> None:
    for name, operation in seeded.operations.items():
        html = text(reviewer, f"/ops/{operation.handle}/")
        assert re.findall(r"<dt>(Decision|Claim|Outcome)</dt>", html) == [
            "Decision", "Claim", "Outcome"
        ], name  # fmt: skip


def test_approved_is_never_painted_as_done(seeded: Seeded, reviewer: Client) -> None:
    html = text(reviewer, f"/ops/{seeded.operations['approved'].handle}/")
    decision = re.search(r'<div class="fact fact-(\w+)"><dt>Decision</dt>', html)
    assert decision is not None
    assert decision[1] == "approved"
    assert "fact-committed" not in html
    assert "state-committed" not in html


def test_an_unknown_operation_shows_the_band_and_names_no_window(
    seeded: Seeded, reviewer: Client
) -> None:
    for name in ("waiting_look", "unasked", "needs_person", "unreachable"):
        html = text(reviewer, f"/ops/{seeded.operations[name].handle}/")
        assert "The crash was in W2 or W3." in html, name
        assert 'class="band"' in html, name
        assert "Failed" not in re.sub(r"<title>.*?</title>", "", html), name


def test_evidence_of_the_effect_names_its_window(seeded: Seeded, reviewer: Client) -> None:
    html = text(reviewer, f"/ops/{seeded.operations['conflict'].handle}/")
    assert "The provider's evidence says W3:" in html


def test_a_doubt_covered_by_a_replay_is_not_given_a_window(
    seeded: Seeded, reviewer: Client
) -> None:
    html = text(reviewer, f"/ops/{seeded.operations['retried'].handle}/")
    assert "Which of the two is still not known" in html
    assert "It was W" not in html
    run = seeded.operations["retried"].run
    assert text(reviewer, f"/runs/{run.handle}/").count('class="bar bar-') >= 2


def test_nothing_is_preselected_in_the_settle_panel(seeded: Seeded, reviewer: Client) -> None:
    html = text(reviewer, f"/ops/{seeded.operations['needs_person'].handle}/")
    choices = re.findall(r'<input type="radio" name="choice"[^>]*>', html)
    assert choices
    assert not any("checked" in choice or "autofocus" in choice for choice in choices)


def test_approve_and_deny_cost_the_same_clicks(seeded: Seeded, reviewer: Client) -> None:
    assert seeded.approval is not None
    html = text(reviewer, f"/approvals/{seeded.approval.handle}/")
    buttons = re.findall(r'<button class="(btn[^"]*)" name="verdict" value="(\w+)"', html)
    assert [verdict for _, verdict in buttons] == ["deny", "approve"]
    assert buttons[0][0] == buttons[1][0]


def test_arguments_are_shown_as_text_and_never_run(seeded: Seeded, reviewer: Client) -> None:
    assert seeded.approval is not None
    html = text(reviewer, f"/approvals/{seeded.approval.handle}/")
    assert str(TRICKY["note"]) not in html
    assert "&lt;b hx-post=/pwn hx-trigger=load&gt;pay&lt;/b&gt; **now**" in html
    assert "\u202e" not in html
    assert "\\u{202E}" in html
    for code in ("BIDI", "CONFUSABLE"):
        assert f"<strong>{code}</strong>" in html


def test_what_a_person_may_not_do_is_said_with_the_reason(seeded: Seeded) -> None:
    assert seeded.approval is not None
    unknown = f"/ops/{seeded.operations['needs_person'].handle}/"
    waiting = f"/approvals/{seeded.approval.handle}/"
    viewer, operator, admin = (client_of(seeded, role) for role in ("viewer", "operator", "admin"))
    assert "Ask provider again</button>" not in text(viewer, unknown)
    assert "you are viewer" in text(viewer, unknown)
    assert "Ask provider again</button>" in text(operator, unknown)
    for client, role in ((operator, "operator"), (admin, "admin")):
        html = text(client, waiting)
        assert "verdict=approve" not in html
        assert f"you are {role}" in html


def test_those_who_may_not_act_are_refused_whatever_they_post(seeded: Seeded) -> None:
    viewer = client_of(seeded, "viewer")
    incident = Incident.objects.first()
    assert incident is not None
    operation = seeded.operations["unasked"].handle
    for address in (
        "/unknown/next/", f"/ops/{operation}/ask/", f"/alerts/{incident.handle}/acknowledge/",
        f"/alerts/{incident.handle}/resolve/",
    ):  # fmt: skip
        answer = viewer.post(address, {"reason": "a reason that is long enough"})
        assert answer.status_code == 403, address
        assert "you are viewer" in answer.content.decode()


def test_taking_the_next_goes_to_what_can_be_settled_and_to_nothing_twice(
    seeded: Seeded,
) -> None:
    first, second = client_of(seeded, "reviewer"), client_of(seeded, "operator")
    ready = {seeded.operations["needs_person"].handle, seeded.operations["conflict"].handle}
    taken = {
        first.post("/unknown/next/")["Location"].split("/")[2],
        second.post("/unknown/next/")["Location"].split("/")[2],
    }
    assert taken == ready
    assert "Bode Ode is looking" in text(first, "/unknown/")


def test_an_incident_is_acknowledged_and_resolved_with_a_reason(seeded: Seeded) -> None:
    operator = client_of(seeded, "operator")
    incident = Incident.objects.filter(kind="args_conflict").get()
    page = f"/alerts/{incident.handle}/"
    assert operator.post(f"{page}acknowledge/").status_code == 302
    short = operator.post(f"{page}resolve/", {"reason": "done"})
    assert short.status_code == 422
    assert "at least ten characters" in short.content.decode()
    assert operator.post(f"{page}resolve/", {"reason": "the sender is mended"}).status_code == 302
    incident.refresh_from_db()
    assert incident.acknowledged_at is not None
    assert incident.resolved_at is not None
    assert "Bode Ode" in text(operator, page)


def test_replays_count_once(seeded: Seeded, reviewer: Client) -> None:
    run = seeded.operations["committed"].run
    html = text(reviewer, f"/runs/{run.handle}/")
    assert Operation.objects.filter(run=run).count() == 4
    assert "<strong>4</strong> fresh" in html
    assert "<strong>2</strong> replayed" in html
    assert "<strong>1</strong> effect, each counted once" in html
