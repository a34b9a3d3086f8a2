"""Changing a provider account: what is named changes, the rest stays, nothing is half done."""

from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from reconcilers import accounts, keyring
from reconcilers.models import ProviderAccount

pytestmark = pytest.mark.django_db


@pytest.fixture
def account() -> ProviderAccount:
    document = {"secret_key": "sk_test_1", "webhook_secret": "whsec_1", "timeout_seconds": 9}
    return accounts.create_account(
        "stripe",
        environment="test",
        namespace="here",
        name=f"stripe-{uuid4().hex[:6]}",
        document=document | {"account": f"acct_{uuid4().hex[:8]}"},
    )


def change(account: ProviderAccount, tmp_path, text: str) -> str:
    file = tmp_path / "change.yaml"
    file.write_text(text)
    out = StringIO()
    call_command(
        "change_provider_account",
        account.name,
        environment="test",
        namespace="here",
        config=str(file),
        stdout=out,
    )
    return out.getvalue()


def secrets_of(account: ProviderAccount) -> dict[str, str]:
    account.refresh_from_db()
    return keyring.open_sealed(bytes(account.secrets))


def test_a_secret_is_rolled_and_the_rest_stays(account, tmp_path):
    said = change(account, tmp_path, "webhook_secret: whsec_2\nwebhook_secret_before: whsec_1\n")
    assert secrets_of(account) == {
        "secret_key": "sk_test_1",
        "webhook_secret": "whsec_2",
        "webhook_secret_before": "whsec_1",
    }
    assert account.config == {"timeout_seconds": 9}
    assert "whsec_2" not in said
    assert "webhook_secret" in said


def test_null_takes_a_member_away(account, tmp_path):
    change(account, tmp_path, "webhook_secret: null\ntimeout_seconds: null\n")
    assert secrets_of(account) == {"secret_key": "sk_test_1"}
    assert account.config == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secret_key: sk_live_1", "a live key in the test environment"),
        ("secret_key: null", "secret_key: missing"),
        ("colour: red", "colour: stripe has no such field"),
        ("account: acct_another", "make another for acct_another"),
    ],
)
def test_what_does_not_fit_changes_nothing(account, tmp_path, text, words):
    before = secrets_of(account)
    with pytest.raises(CommandError, match=words):
        change(account, tmp_path, text)
    assert secrets_of(account) == before


def test_an_unknown_account_is_said_to_be(account, tmp_path):
    account.name = "nobody"
    with pytest.raises(CommandError, match="no account of this name"):
        change(account, tmp_path, "timeout_seconds: 3")
