"""The simulated provider's faults on order, met by the official SDK."""

import time
from typing import Any

import httpx
import pytest
import stripe

from tests.support.charging import CHARGE, charge, client, effects
from tests.support.simulated_provider import SimulatedProvider


def test_a_response_is_lost_after_the_commit(provider: SimulatedProvider) -> None:
    provider.fault({"drop": "after"}, times=1, metadata={"idem_key": "lost"})
    with pytest.raises(stripe.APIConnectionError):
        charge(provider, "lost")
    assert effects(provider, "lost") == 1
    assert charge(provider, "lost").last_response.headers["Idempotent-Replayed"] == "true"
    assert effects(provider, "lost") == 1


def test_a_request_never_arrives(provider: SimulatedProvider) -> None:
    provider.fault({"drop": "before"}, times=1, metadata={"idem_key": "unsent"})
    with pytest.raises(stripe.APIConnectionError):
        charge(provider, "unsent")
    assert effects(provider, "unsent") == 0


def test_a_commit_arrives_late_and_holds_its_key_meanwhile(provider: SimulatedProvider) -> None:
    action = {"commit_after_seconds": 0.6, "drop": "before"}
    provider.fault(action, times=1, metadata={"idem_key": "late"})
    with pytest.raises(stripe.APIConnectionError):
        charge(provider, "late")
    assert effects(provider, "late") == 0
    with pytest.raises(stripe.APIError) as busy:
        charge(provider, "late")
    assert busy.value.http_status == 409
    body: Any = busy.value.json_body
    assert body["error"]["code"] == "idempotency_key_in_use"
    provider.wait_for_effects(1, intent="late")
    assert charge(provider, "late").last_response.headers["Idempotent-Replayed"] == "true"
    assert effects(provider, "late") == 1


def test_who_waits_long_enough_hears_of_the_late_commit(provider: SimulatedProvider) -> None:
    provider.fault({"commit_after_seconds": 0.3}, metadata={"idem_key": "patient"})
    assert charge(provider, "patient").status == "succeeded"


def test_a_client_times_out_after_success(provider: SimulatedProvider) -> None:
    provider.fault({"hold_seconds": 2}, times=1, metadata={"idem_key": "slow"})
    impatient = client(provider, timeout=0.3)
    with pytest.raises(stripe.APIConnectionError):
        impatient.v1.payment_intents.create(
            CHARGE | {"metadata": {"idem_key": "slow"}}, {"idempotency_key": "slow"}
        )
    assert effects(provider, "slow") == 1


@pytest.mark.parametrize(("mode", "now", "later"), [("none", 0, 0), ("now", 1, 1), ("later", 0, 1)])
def test_a_500_is_kept_whatever_happens_behind_it(
    provider: SimulatedProvider, mode: str, now: int, later: int
) -> None:
    key = f"broken-{mode}"
    action = {"error_500": mode, "later_seconds": 0.4}
    provider.fault(action, times=1, metadata={"idem_key": key})
    for _ in range(2):
        with pytest.raises(stripe.APIError) as broken:
            charge(provider, key)
        assert broken.value.http_status == 500
    assert effects(provider, key) == now
    provider.wait_for_effects(later, intent=key)
    with pytest.raises(stripe.APIError):
        charge(provider, key)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, stripe.RateLimitError),
        (401, stripe.AuthenticationError),
        (403, stripe.PermissionError),
    ],
)
def test_what_stands_before_the_layer_keeps_nothing(
    provider: SimulatedProvider, status: int, kind: type[stripe.StripeError]
) -> None:
    key = f"before-{status}"
    action = {"status": status, "retry_after": 3}
    provider.fault(action, times=1, metadata={"idem_key": key})
    with pytest.raises(kind) as refused:
        charge(provider, key)
    assert (refused.value.headers or {})["Retry-After"] == "3"
    assert charge(provider, key).status == "succeeded"
    assert effects(provider, key) == 1


def test_a_read_limit_says_when_to_come_back(provider: SimulatedProvider) -> None:
    provider.fault({"status": 429, "retry_after": 7}, method="GET", times=1)
    with pytest.raises(stripe.RateLimitError) as limited:
        client(provider).v1.payment_intents.list({})
    assert (limited.value.headers or {})["Retry-After"] == "7"
    assert client(provider).v1.payment_intents.list({"limit": 1}).object == "list"


def test_a_forgotten_key_is_a_new_request(provider: SimulatedProvider) -> None:
    charge(provider, "pruned")
    provider.fault({"prune_key": True}, metadata={"idem_key": "pruned"})
    charge(provider, "pruned")
    assert provider.ledger(intent="pruned")["duplicates"] == ["charge:pruned"]


def test_keys_are_forgotten_after_their_retention(provider: SimulatedProvider) -> None:
    provider.settings(key_retention_seconds=0.2)
    charge(provider, "retained")
    time.sleep(0.3)
    charge(provider, "retained")
    assert effects(provider, "retained") == 2


def test_a_payment_stays_in_processing(provider: SimulatedProvider) -> None:
    action = {"processing": True, "processing_seconds": 0.3}
    provider.fault(action, metadata={"idem_key": "debit"})
    made = charge(provider, "debit")
    assert made.status == "processing"
    assert effects(provider, "debit") == 0
    provider.wait_for_effects(1, intent="debit")
    assert client(provider).v1.payment_intents.retrieve(made.id).status == "succeeded"


def test_mail_has_no_key_unless_told_to(provider: SimulatedProvider) -> None:
    def send(intent: str) -> str:
        answer = httpx.post(
            f"{provider.url}/mail/send",
            json={"to": "a@example.com", "subject": "hello", "body": "there"},
            headers={
                "Authorization": "Bearer sk_test_sim",
                "Idempotency-Key": intent,
                "X-Lab-Intent": intent,
            },
        )
        return str(answer.json()["id"])

    assert send("mail-1") != send("mail-1")
    assert provider.ledger(intent="mail-1")["duplicates"] == ["mail:mail-1"]
    provider.settings(mail_honours_keys=True)
    assert send("mail-2") == send("mail-2")
    assert effects(provider, "mail-2") == 1


def test_a_seed_gives_the_same_faults_in_any_order(provider: SimulatedProvider) -> None:
    def outcomes(keys: list[str]) -> dict[str, bool]:
        schedule = {"seed": 11, "chances": {"rate_limited": 0.5}}
        assert httpx.post(f"{provider.url}/_schedule", json=schedule).status_code == 200
        seen = {}
        for key in keys:
            try:
                charge(provider, key)
                seen[key] = True
            except stripe.RateLimitError:
                seen[key] = False
        return seen

    keys = [f"seeded-{n}" for n in range(12)]
    try:
        forwards = outcomes(keys)
        assert outcomes(keys[::-1]) == forwards
        assert set(forwards.values()) == {True, False}
    finally:
        httpx.post(f"{provider.url}/_schedule", json={"chances": {}})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/_faults", {"match": {"pth": "/"}, "action": {}}),
        ("/_faults", {"action": {"explode": True}}),
        ("/_settings", {"search_lagg": 1}),
        ("/_schedule", {"chances": {"gremlins": 1}}),
    ],
)
def test_it_refuses_levers_that_it_does_not_have(
    provider: SimulatedProvider, path: str, body: dict[str, Any]
) -> None:
    assert httpx.post(provider.url + path, json=body).status_code == 400
