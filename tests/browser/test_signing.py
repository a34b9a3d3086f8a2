"""Enrol a passkey, approve, and let stock ssh-keygen check it: a real Chromium, a virtual key."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.approving import stock_verify
from tests.support.product import Product
from tests.support.runtime import Runtime

PASSWORD = "correct horse battery"


def add_authenticator(page: Page) -> Callable[[], None]:
    """A platform authenticator that verifies its user at once; call it to make it fail to."""
    cdp = page.context.new_cdp_session(page)
    cdp.send("WebAuthn.enable")
    added = cdp.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2",
                "transport": "internal",
                "hasResidentKey": True,
                "hasUserVerification": True,
                "isUserVerified": True,
                "automaticPresenceSimulation": True,
            }
        },
    )
    failing = {"authenticatorId": added["authenticatorId"], "isUserVerified": False}

    def fail() -> None:
        cdp.send("WebAuthn.setUserVerified", failing)

    return fail


def sign_in(product: Product, page: Page, role: str = "reviewer") -> str:
    email = f"{role}-{uuid.uuid4().hex[:8]}@example.com"
    product.manage("create_user", email, "--role", role, "--password-stdin", stdin=PASSWORD + "\n")
    page.goto("/login/")
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/login" not in url)
    return email


def enrol(page: Page, kind: str, name: str) -> None:
    page.goto("/me/keys/enrol/")
    page.get_by_label(kind).check()
    page.get_by_label("What to call it").fill(name)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Enrol this key").click()
    page.get_by_text(f"{name} is enrolled").wait_for()


@pytest.fixture
def agent(live_product: Product) -> Iterator[Runtime]:
    key = live_product.create_api_key(environment="live")
    runtime = Runtime(live_product.base_url, key)
    yield runtime
    runtime.http.close()


def vouch(product: Product, email: str) -> None:
    """The first key of an installation needs nobody; a later one an admin, here by the shell."""
    product.manage(
        "shell", "-c",
        "from approvals import enrolment; from approvals.models import ReviewerKey, User;"
        f"k = ReviewerKey.objects.get(user__email='{email}');"
        "a = User.objects.filter(role='admin').first() or"
        " User.objects.create_user('vouches@example.com', None, role='admin');"
        "k.bootstrap or k.countersigned_by_id or enrolment.countersign(a, k.key_id)",
    )  # fmt: skip


def test_a_passkey_approval_made_here_is_checked_by_stock_ssh_keygen(
    live_product: Product, page: Page, agent: Runtime, tmp_path: Path
) -> None:
    add_authenticator(page)
    email = sign_in(live_product, page)
    enrol(page, "Passkey", "work laptop")
    vouch(live_product, email)

    call = agent.new_call()
    asked = agent.claim(call)
    assert asked.status_code == 202, asked.text
    approval = asked.json()["approval"]

    page.goto(f"/approvals/{approval['id']}/sign/?verdict=approve")
    page.get_by_role("button", name="Continue to sign").click()
    page.get_by_role("button", name="Approve and sign").click()
    page.get_by_text("Approved is not executed").wait_for()

    read = agent.http.get(f"/api/v1/approvals/{approval['id']}").json()
    assert read["status"] == "approved"
    (decision,) = read["decisions"]
    assert (decision["method"], decision["custody"]) == ("webauthn", "A2")
    assert decision["reviewer"] == email
    assert stock_verify(decision, tmp_path)
    assert not stock_verify(decision, tmp_path, message=b"another message")

    granted = agent.claim(call)
    assert granted.status_code == 201, granted.text
    assert granted.json()["grant"]
    assert agent.outcome(granted, "committed", provider_ref="pi_1").status_code == 200


def test_a_denial_reaches_the_agent_as_such(
    live_product: Product, page: Page, agent: Runtime
) -> None:
    add_authenticator(page)
    email = sign_in(live_product, page)
    enrol(page, "Passkey", "work laptop")
    vouch(live_product, email)
    call = agent.new_call()
    approval = agent.claim(call).json()["approval"]

    page.goto(f"/approvals/{approval['id']}/")
    page.get_by_label("Why, if you deny").select_option("wrong amount")
    page.get_by_role("button", name="Deny…").click()
    page.get_by_role("button", name="Deny and sign").click()
    page.get_by_text("Your denial is recorded").wait_for()

    refused = agent.claim(call)
    assert refused.status_code == 409
    assert refused.json()["code"] == "OPERATION_PREVIOUSLY_FAILED"
    assert refused.json()["failure"] == "denied"


def test_a_browser_key_cannot_sign_where_the_rule_asks_for_a_passkey(
    live_product: Product, page: Page, agent: Runtime
) -> None:
    email = sign_in(live_product, page)
    enrol(page, "Key of this browser", "this browser")
    vouch(live_product, email)
    approval = agent.claim(agent.new_call()).json()["approval"]
    page.goto(f"/approvals/{approval['id']}/sign/?verdict=approve")
    page.get_by_text("You have no key that may sign this").wait_for()
    assert page.get_by_role("button", name="Continue to sign").count() == 0


RULE = """
policies:
  - id: browser-keys
    match: {environment: test, tool: "soft.*"}
    min_custody: A1
"""


def test_a_browser_key_signs_where_the_rule_says_a1(
    live_product: Product, page: Page, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULE)
    live_product.manage("catalogue", "apply", str(rules))
    agent = Runtime(live_product.base_url, live_product.create_api_key(environment="test"))
    email = sign_in(live_product, page)
    enrol(page, "Key of this browser", "this browser")
    vouch(live_product, email)
    call = agent.new_call(tool="soft.note")
    approval = agent.claim(call).json()["approval"]

    page.goto(f"/approvals/{approval['id']}/")
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Approve and sign").click()
    page.get_by_text("Approved is not executed").wait_for()

    read = agent.http.get(f"/api/v1/approvals/{approval['id']}").json()
    (decision,) = read["decisions"]
    assert (decision["method"], decision["custody"]) == ("webcrypto", "A1")
    assert decision["sshsig"] is None
    assert agent.claim(call).status_code == 201
    agent.http.close()


def test_the_signing_page_is_sound_and_a_cancelled_ceremony_says_so(
    live_product: Product, page: Page, agent: Runtime
) -> None:
    forget_the_finger = add_authenticator(page)
    email = sign_in(live_product, page)
    enrol(page, "Passkey", "work laptop")
    vouch(live_product, email)
    args = {"amount": 25000, "memo": "invoice \u202e8841", "to": "p\u0430ypal.com"}
    approval = agent.claim(agent.new_call(args=args)).json()["approval"]
    page.goto(f"/approvals/{approval['id']}/sign/?verdict=approve")
    page.get_by_role("button", name="Continue to sign").click()

    assert page.get_by_role("cell", name="\\u{202E}").is_visible()
    assert page.get_by_text("BIDI", exact=True).is_visible()
    assert page.locator("script").count() == 1
    assert page.get_by_role("button").count() == 1
    assert page.evaluate("document.activeElement === document.body")
    shown = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert shown <= 0

    forget_the_finger()
    page.get_by_role("button", name="Approve and sign").click()
    page.get_by_text("Nothing was signed.").wait_for(timeout=30_000)
    assert page.get_by_role("button", name="Approve and sign").is_enabled()
    read = agent.http.get(f"/api/v1/approvals/{approval['id']}").json()
    assert read["status"] == "pending"
