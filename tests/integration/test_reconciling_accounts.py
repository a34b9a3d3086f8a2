"""One account, one mode, one namespace; and what is left on the queue."""

import json

import pytest

from reconcilers import accounts, engine, services
from reconcilers.models import DueLook, ProviderAccount
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.doubtful import a_simulator, a_world  # noqa: F401
from tests.support.reconciling import (
    World,
    look_now,
)

pytestmark = pytest.mark.django_db


class TestAccounts:
    def test_an_account_belongs_to_one_namespace(self, world):
        look_now(world.doubtful(effect=True))
        learnt = ProviderAccount.objects.get().external_id
        assert learnt == f"acct_{world.secret_key.removeprefix('sk_test_')}"
        other = World(world.simulator, secret_key=world.secret_key)
        with pytest.raises(accounts.AccountTaken, match="never meet"):
            other.account(account=learnt)
        other.account()
        call = other.doubtful(effect=True)
        look_now(call)
        assert call.operation.state == "UNKNOWN"
        assert "already belongs to a namespace" in call.operation.verdict["sentence"]

    def test_a_paused_account_is_not_asked_and_says_so(self, world):
        account = ProviderAccount.objects.get()
        services.pause_account(account.id, actor="user:ana")
        call = world.doubtful(effect=True)
        look_now(call)
        assert "is paused" in call.operation.verdict["sentence"]
        assert call.findings == []
        services.resume_account(account.id, actor="user:ana")
        engine.run(4.0, patience_seconds=0.0)
        assert call.operation.state == "COMMITTED"

    def test_secrets_are_sealed_and_shown_masked(self, world):
        account = ProviderAccount.objects.get()
        assert world.secret_key.encode() not in bytes(account.secrets)
        shown = json.dumps(accounts.described(account), default=str)
        assert world.secret_key not in shown
        assert "sk_test_…" in accounts.described(account)["secrets"]["secret_key"]

    def test_the_ring_rotates(self, world, settings):
        from cryptography.fernet import Fernet

        old, new = settings.COUNTERSIGN_KEYRING[0], Fernet.generate_key().decode()
        settings.COUNTERSIGN_KEYRING = [new, old]
        assert accounts.rotate_secrets() == 1
        settings.COUNTERSIGN_KEYRING = [new]
        account = ProviderAccount.objects.get()
        assert accounts.access_to(account).secrets["secret_key"] == world.secret_key
        settings.COUNTERSIGN_KEYRING = [old]
        call = world.doubtful()
        look_now(call)
        assert "not in COUNTERSIGN_KEYRING" in call.operation.verdict["sentence"]


def test_due_looks_are_kept_only_while_there_is_something_to_ask(world):
    call = world.doubtful(effect=True)
    look_now(call)
    assert not DueLook.objects.exists()
