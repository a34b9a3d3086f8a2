"""The signing pages over HTTP, without a browser: the software passkey answers for it."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from approvals.models import Decision, PendingStatement, ReviewerKey
from tests.integration.test_resolutions import Unknown
from tests.support import approving
from tests.support.passkey import Passkey

pytestmark = pytest.mark.django_db


def signed_in(user: object) -> Client:
    client = Client()
    client.force_login(user)  # type: ignore[arg-type]
    return client


def data(html: str, name: str) -> str:
    found = re.search(rf'data-{name}="([^"]*)"', html)
    assert found is not None, html
    return unescape(found[1])


def hidden(html: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found is not None, html
    return unescape(found[1])


def start(client: Client, asked: approving.Asked, verdict: str, **more: object) -> str:
    url = reverse("approval-start", args=[asked.id])
    answer = client.post(url, {"verdict": verdict, **more})
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def test_opening_the_form_stores_and_decides_nothing() -> None:
    reviewer, asked = approving.person(), approving.ask()
    before = PendingStatement.objects.count()
    answer = signed_in(reviewer.user).get(
        reverse("approval-sign", args=[asked.id]), {"verdict": "approve"}
    )
    assert answer.status_code == 200
    assert "stripe.charge" in answer.content.decode()
    assert PendingStatement.objects.count() == before
    assert not Decision.objects.exists()
    assert approving.operation(asked.op_id).gate == "waiting"


def test_a_get_to_start_or_finish_is_refused() -> None:
    reviewer, asked = approving.person(), approving.ask()
    client = signed_in(reviewer.user)
    for name in ("approval-start", "approval-finish"):
        assert client.get(reverse(name, args=[asked.id])).status_code == 405


def test_a_forged_form_without_its_token_is_refused() -> None:
    reviewer, asked = approving.person(), approving.ask()
    client = Client(enforce_csrf_checks=True)
    client.force_login(reviewer.user)
    answer = client.post(reverse("approval-start", args=[asked.id]), {"verdict": "approve"})
    assert answer.status_code == 403


def test_an_approval_goes_from_the_page_to_the_receipt() -> None:
    reviewer, asked = approving.person(), approving.ask()
    client = signed_in(reviewer.user)
    html = start(client, asked, "approve", reason="as agreed")
    assert html.count("<script") == 1
    answer = reviewer.passkey.get(json.loads(data(html, "options")))
    finish = reverse("approval-finish", args=[asked.id])
    form = {"statement": hidden(html, "statement"), "answer": json.dumps(answer)}

    done = client.post(finish, form)
    again = client.post(finish, form)

    assert done.status_code == again.status_code == 302
    assert done["Location"] == again["Location"]
    receipt = client.get(done["Location"]).content.decode()
    assert "Approved is not executed" in receipt
    assert Decision.objects.count() == 1
    assert approving.operation(asked.op_id).gate == "granted"


def test_the_signing_page_forbids_every_script_but_its_own() -> None:
    reviewer, asked = approving.person(), approving.ask()
    url = reverse("approval-start", args=[asked.id])
    answer = signed_in(reviewer.user).post(url, {"verdict": "deny"})
    policy = answer["Content-Security-Policy"]
    assert "trusted-types 'none'" in policy
    assert "script-src 'self';" in policy
    assert "nonce" not in policy


def test_who_may_not_decide_reads_why_and_gets_no_form() -> None:
    operator, asked = approving.person("operator"), approving.ask()
    client = signed_in(operator.user)
    url = reverse("approval-sign", args=[asked.id])
    html = client.get(url, {"verdict": "approve"}).content.decode()
    assert "needs reviewer; you are operator" in html
    assert "Continue to sign" not in html
    started = client.post(reverse("approval-start", args=[asked.id]), {"verdict": "approve"})
    assert started.status_code == 403


def test_a_key_is_enrolled_on_the_keys_pages() -> None:
    someone = approving.user()
    client = signed_in(someone)
    passkey = Passkey("localhost", "")
    assert client.get(reverse("keys")).status_code == 200
    assert client.get(reverse("keys-enrol")).status_code == 200
    begun = client.post(reverse("keys-enrol-start"), {"method": "webauthn", "name": "laptop"})
    html = begun.content.decode()
    options = json.loads(data(html, "options"))
    passkey.rp_id, passkey.origin = options["rp"]["id"], settings.BASE_URL
    form = {
        "enrolment": hidden(html, "enrolment"),
        "answer": json.dumps(passkey.create(options)),
    }
    assert client.post(reverse("keys-enrol-finish"), form).status_code == 302
    assert ReviewerKey.objects.get(user=someone).bootstrap
    assert "in use (bootstrap)" in client.get(reverse("keys")).content.decode()


def test_a_stale_login_is_asked_for_its_password_first() -> None:
    someone = approving.user()
    someone.set_password("a long enough password")
    someone.save()
    client = signed_in(someone)
    session = client.session
    session["authenticated_at"] = "2020-01-01T00:00:00+00:00"
    session.save()
    refused = client.post(reverse("keys-enrol-start"), {"method": "webauthn", "name": "x"})
    assert refused.status_code == 403
    client.post(reverse("keys-confirm"), {"password": "a long enough password"})
    begun = client.post(reverse("keys-enrol-start"), {"method": "webauthn", "name": "x"})
    assert begun.status_code == 200


def test_the_signing_script_is_at_most_a_kilobyte_and_there_is_no_other() -> None:
    script = finders.find("console/sign.js")
    assert isinstance(script, str)
    assert Path(script).stat().st_size <= 1024


def test_a_settlement_goes_from_the_form_to_the_receipt() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    client = signed_in(operator.user)
    form = client.get(
        reverse("settle-sign", args=[unknown.id]), {"choice": "settle-committed"}
    ).content.decode()
    assert 'name="provider_ref"' in form
    missing = client.post(
        reverse("settle-start", args=[unknown.id]), {"choice": "settle-committed"}
    )
    assert missing.status_code == 422
    assert "Say how you know" in missing.content.decode()
    html = client.post(
        reverse("settle-start", args=[unknown.id]),
        {"choice": "settle-committed", "provider_ref": "msg_42"},
    ).content.decode()
    answer = operator.passkey.get(json.loads(data(html, "options")))
    done = client.post(
        reverse("settle-finish", args=[unknown.id]),
        {"statement": hidden(html, "statement"), "answer": json.dumps(answer)},
    )
    assert done.status_code == 302, done.content.decode()
    assert "The operation is COMMITTED" in client.get(done["Location"]).content.decode()
    assert unknown.row.provider_ref == "msg_42"


def test_the_requests_own_page_posts_straight_to_the_bytes() -> None:
    reviewer, asked = approving.person(), approving.ask()
    client = signed_in(reviewer.user)
    page = client.get(reverse("approval", args=[asked.id])).content.decode()
    assert f'action="{reverse("approval-start", args=[asked.id])}"' in page
    assert page.count('name="verdict"') == 2
    assert "autofocus" not in page
    assert not re.search(r'name="(key|verdict|reason_code)"[^>]*checked', page)
    html = start(client, asked, "deny", reason_code="wrong_amount", key=hidden(page, "key"))
    assert "Deny and sign" in html
    assert "wrong_amount" in html
    assert not Decision.objects.exists()


def test_the_unknowns_own_page_posts_straight_to_the_bytes() -> None:
    unknown, operator = Unknown(), approving.person("operator")
    client = signed_in(operator.user)
    page = client.get(reverse("operation", args=[unknown.id])).content.decode()
    assert f'action="{reverse("settle-start", args=[unknown.id])}"' in page
    assert not re.search(r'name="choice"[^>]*checked', page)
    for name in ("provider_ref", "reason", "key"):
        assert f'name="{name}"' in page


def test_a_denials_reason_is_not_signed_with_an_approval() -> None:
    reviewer, asked = approving.person(), approving.ask()
    html = start(signed_in(reviewer.user), asked, "approve", reason_code="wrong_amount")
    assert "wrong_amount" not in html


def test_17_release_before_the_settle_point_cannot_be_signed_by_direct_post() -> None:
    unknown, reviewer = Unknown(), approving.person()
    client = signed_in(reviewer.user)
    refused = client.post(reverse("settle-start", args=[unknown.id]), {"choice": "release"})
    assert refused.status_code == 409
    assert "may still be running" in refused.content.decode()
    assert unknown.row.state == "UNKNOWN"


def test_31_a_second_reviewers_pages_hold_no_trace_of_the_first_verdict() -> None:
    approving.publish({"id": "two", "match": {}, "quorum": 2})
    first, second, asked = approving.person(), approving.person(), approving.ask()
    signed_in_first = signed_in(first.user)
    html = start(signed_in_first, asked, "approve", reason="zebra-striped reason")
    answer = first.passkey.get(json.loads(data(html, "options")))
    signed_in_first.post(
        reverse("approval-finish", args=[asked.id]),
        {"statement": hidden(html, "statement"), "answer": json.dumps(answer)},
    )
    other = signed_in(second.user)
    decision = Decision.objects.get()
    pages = [
        other.get(reverse("approval-sign", args=[asked.id]), {"verdict": "approve"}),
        other.get(reverse("approval", args=[asked.id])),
    ]
    for page in pages:
        text = page.content.decode()
        assert "zebra-striped" not in text
        assert first.user.email not in text
        assert decision.decision_id not in text
    receipt = reverse("approval-receipt", args=[asked.id, decision.decision_id])
    assert other.get(receipt).status_code == 404


def test_54_the_agents_words_change_nothing_of_what_is_signed() -> None:
    lie = "already approved by security, args changed to 1 EUR <script>alert(1)</script>"
    reviewer, asked = approving.person(), approving.ask(reason=lie)
    html = start(signed_in(reviewer.user), asked, "approve")
    assert "already approved by security" not in html
    assert "25000" in html
