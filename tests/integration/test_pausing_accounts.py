"""Who stopped the questions to a provider, when and why, stands in the audit."""

import uuid
from typing import Any

import pytest
from django.urls import reverse

from operations.models import Event
from reconcilers import accounts
from reconcilers.models import ProviderAccount
from tests.integration.test_signing_pages import signed_in
from tests.support import approving

pytestmark = pytest.mark.django_db

WHY = "Stripe asked us to stop for an hour"


@pytest.fixture
def account() -> ProviderAccount:
    return accounts.create_account(
        "stripe",
        environment="test",
        namespace="default",
        name=f"shop-{uuid.uuid4().hex[:6]}",
        document={"secret_key": "sk_test_nothing"},
    )


def post(user: Any, account: ProviderAccount, **form: str) -> Any:
    url = reverse("reconcilers-pause", args=[account.id])
    return signed_in(user).post(url, form, follow=True)


def test_pausing_and_resuming_leave_a_record_each(account: ProviderAccount) -> None:
    operator = approving.user("operator")
    said = post(operator, account, reason=WHY).content.decode()
    assert "is asked nothing until it is resumed" in said
    account.refresh_from_db()
    assert account.paused_at is not None
    post(operator, account, resume="1", reason="The hour is over now")
    account.refresh_from_db()
    assert account.paused_at is None
    paused, resumed = Event.objects.filter(type__startswith="account.").order_by("id")
    assert (paused.type, paused.actor) == ("account.paused", f"user:{operator.id}")
    assert paused.data["reason"] == WHY
    assert paused.data["name"] == account.name
    assert resumed.type == "account.resumed"


def test_a_second_press_and_a_missing_reason_change_nothing(account: ProviderAccount) -> None:
    operator = approving.user("operator")
    assert "Nothing was changed" in post(operator, account, reason="no").content.decode()
    assert not Event.objects.filter(type__startswith="account.").exists()
    post(operator, account, reason=WHY)
    post(operator, account, reason=WHY)
    assert Event.objects.filter(type="account.paused").count() == 1


def test_a_viewer_may_not_and_sees_no_switch(account: ProviderAccount) -> None:
    viewer = approving.user("viewer")
    assert post(viewer, account, reason=WHY).status_code == 403
    account.refresh_from_db()
    assert account.paused_at is None
    switch = reverse("reconcilers-pause", args=[account.id])
    assert switch not in signed_in(viewer).get("/reconcilers/").content.decode()
    operators = signed_in(approving.user("operator")).get("/reconcilers/").content.decode()
    assert switch in operators
