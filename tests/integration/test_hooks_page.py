"""The reconcilers page tells how webhooks come in: what waits, was flagged, was refused."""

import json
import time
from typing import Any

import pytest

from crashlab.provider.webhooks import signature
from reconcilers import accounts, inbox
from reconcilers.models import ProviderAccount, ProviderEvent
from reconcilers.providers.hooks import HookRefused
from reconcilers.reading import hook_health
from tests.integration.pages import client_of
from tests.integration.test_hooks import SECRET, event_of
from tests.support import furnished

pytestmark = pytest.mark.django_db


@pytest.fixture
def account() -> ProviderAccount:
    return accounts.create_account(
        "stripe",
        environment="test",
        namespace="default",
        name="sandbox",
        document={"secret_key": "sk_test_1", "webhook_secret": SECRET, "account": "acct_ours"},
    )


def deliver(account: ProviderAccount, event: dict[str, Any], *, secret: str = SECRET) -> str:
    body = json.dumps(event).encode()
    headers = {"stripe-signature": signature(body, int(time.time()), secret)}
    return inbox.receive("stripe", str(account.id), headers, body).standing


def disturb(account: ProviderAccount) -> None:
    deliver(account, event_of(livemode=True))
    deliver(account, event_of(account="acct_theirs"))
    deliver(account, {"id": "evt_odd"})
    deliver(account, event_of())
    with pytest.raises(HookRefused):
        deliver(account, event_of(), secret="whsec_theirs")
    inbox.run_once()
    ProviderEvent.objects.filter(standing="waiting").update(received_at="2026-11-01T00:00:00Z")


def test_the_counts_say_what_came_and_what_stands(account):
    before = {health.account: health for health in hook_health()}["sandbox"]
    assert (before.received, before.last_at, before.refusals) == (0, None, ())
    disturb(account)
    health = {health.account: health for health in hook_health()}["sandbox"]
    assert health.path == f"/hooks/stripe/{account.id}"
    assert dict(health.flagged) == {"wrong mode": 1, "wrong account": 1, "unreadable": 1}
    assert (health.open, health.overdue) == (0, 1)
    (refusal,) = health.refusals
    assert (refusal.cause, refusal.count) == ("no_match", 1)


def test_the_page_shows_them_and_no_secret(account):
    seeded = furnished.everything()
    disturb(account)
    page = client_of(seeded, "reviewer").get("/reconcilers/").content.decode()
    assert f"/hooks/stripe/{account.id}" in page
    assert "1× wrong mode" in page
    assert "for over 15 minutes" in page
    assert "The signature fits no secret of this account" in page
    assert SECRET not in page
