"""The simulated provider against the official SDK: as Stripe does it, under load and killed."""

import concurrent.futures
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import stripe

from tests.support.charging import charge, client, effects
from tests.support.simulated_provider import SimulatedProvider


def test_it_charges_once_and_replays_the_answer(provider: SimulatedProvider) -> None:
    first = charge(provider, "once")
    again = charge(provider, "once")
    assert first.status == "succeeded"
    assert again.id == first.id
    assert again.last_response.headers["Idempotent-Replayed"] == "true"
    assert first.last_response.headers["Request-Id"].startswith("req_")
    assert effects(provider, "once") == 1


def test_it_refuses_the_same_key_with_other_parameters(provider: SimulatedProvider) -> None:
    charge(provider, "reused")
    with pytest.raises(stripe.IdempotencyError):
        charge(provider, "reused", amount=2600)
    with pytest.raises(stripe.IdempotencyError):
        client(provider).v1.customers.create({}, {"idempotency_key": "reused"})
    assert effects(provider, "reused") == 1


def test_a_decline_is_kept_under_its_key(provider: SimulatedProvider) -> None:
    for replayed in (None, "true"):
        with pytest.raises(stripe.CardError) as declined:
            charge(provider, "declined", payment_method="pm_card_chargeDeclined")
        assert declined.value.http_status == 402
        assert (declined.value.headers or {}).get("Idempotent-Replayed") == replayed
        body: Any = declined.value.json_body
        assert body["error"]["payment_intent"]["status"] == "requires_payment_method"
    assert effects(provider, "declined") == 0


def test_what_is_wrong_with_the_parameters_is_not_kept(provider: SimulatedProvider) -> None:
    wrong: list[dict[str, Any]] = [
        {"amount": "25.00"},
        {"amount": 1},
        {"currency": "xxx"},
        {"amount": ""},
        {"payment_method": ""},
        {"colour": "red"},
        {"metadata": {"k" * 41: "v"}},
    ]
    for params in wrong:
        with pytest.raises(stripe.InvalidRequestError) as refused:
            charge(provider, "corrected", **params)
        assert refused.value.http_status == 400
    assert charge(provider, "corrected").status == "succeeded"


def test_a_key_opens_one_account_in_one_mode(provider: SimulatedProvider) -> None:
    made = charge(provider, "scoped")
    for other in ("sk_live_sim", "sk_test_sim_other"):
        with pytest.raises(stripe.InvalidRequestError) as missing:
            client(provider, other).v1.payment_intents.retrieve(made.id)
        assert missing.value.code == "resource_missing"
        # The same key is free there, too: nobody shares a key across accounts or modes.
        assert charge(provider, "scoped", api_key=other).id != made.id
    assert client(provider, "sk_live_sim_x").v1.accounts.retrieve_current().id == "acct_sim_x"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer sk_nonsense"}])
def test_it_asks_for_a_key(provider: SimulatedProvider, headers: dict[str, str]) -> None:
    assert httpx.get(f"{provider.url}/v1/payment_intents", headers=headers).status_code == 401


def test_basic_auth_opens_it_too(provider: SimulatedProvider) -> None:
    answer = httpx.get(f"{provider.url}/v1/account", auth=("sk_live_sim", ""))
    assert answer.json()["livemode"] is True


def test_a_payment_is_made_then_confirmed_then_captured(provider: SimulatedProvider) -> None:
    intents = client(provider).v1.payment_intents
    made = intents.create({"amount": 900, "currency": "eur", "capture_method": "manual"})
    assert made.status == "requires_payment_method"
    held = intents.confirm(made.id, {"payment_method": "pm_card_visa"})
    assert held.status == "requires_capture"
    assert intents.capture(made.id).amount_received == 900
    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.cancel(made.id)
    assert refused.value.code == "payment_intent_unexpected_state"


def test_lists_page_to_the_end_newest_first(provider: SimulatedProvider) -> None:
    made = [charge(provider, f"page-{n}", customer="cus_pages").id for n in range(7)]
    window = {"created": {"gte": int(time.time()) - 600}, "customer": "cus_pages", "limit": 3}
    first = client(provider).v1.payment_intents.list(window)
    assert first.has_more
    assert [item.id for item in first.auto_paging_iter()] == made[::-1]
    provider.fault({"page_size": 2}, path="/v1/payment_intents")
    assert len(client(provider).v1.payment_intents.list(window).data) == 2
    future = {"created": {"gt": int(time.time()) + 5}}
    assert client(provider).v1.payment_intents.list(future).data == []
    with pytest.raises(stripe.InvalidRequestError):
        client(provider).v1.payment_intents.list({"starting_after": "pi_nowhere"})


def test_events_tell_the_request_and_its_key(provider: SimulatedProvider) -> None:
    made = charge(provider, "eventful")
    wanted = {"types": ["payment_intent.succeeded", "charge.succeeded"], "limit": 2}
    events = client(provider).v1.events.list(wanted).data
    assert [event.type for event in events] == ["payment_intent.succeeded", "charge.succeeded"]
    assert events[0].data.object["id"] == made.id
    assert events[0].request is not None
    assert events[0].request.idempotency_key == "eventful"
    assert events[0].request.id == made.last_response.headers["Request-Id"]


def test_search_lags_and_goes_back_and_forth(provider: SimulatedProvider) -> None:
    def found(key: str) -> int:
        query = f'metadata["idem_key"]:"{key}" AND status:"succeeded"'
        return len(client(provider).v1.payment_intents.search({"query": query}).data)

    charge(provider, "found")
    assert found("found") == 1
    assert found("FOUND") == 1, "as Stripe's, it does not tell cases apart"
    provider.fault({"search_lag_seconds": 0.5}, metadata={"idem_key": "lagging"})
    charge(provider, "lagging")
    assert found("lagging") == 0
    time.sleep(0.6)
    assert found("lagging") == 1
    provider.fault({"search_empty": True}, path="*/search", nth=2)
    assert [found("lagging") for _ in range(3)] == [1, 0, 1]


@pytest.mark.parametrize("query", ["", "nonsense", "a:1 AND b:2 OR c:3", 'a:"1" b:"2"'])
def test_it_refuses_what_is_no_query(provider: SimulatedProvider, query: str) -> None:
    with pytest.raises(stripe.InvalidRequestError):
        client(provider).v1.payment_intents.search({"query": query})


def test_a_refund_fails_later(provider: SimulatedProvider) -> None:
    made = charge(provider, "refunded")
    provider.fault({"fails_later_seconds": 0.2}, path="/v1/refunds")
    refund = client(provider).v1.refunds.create({"payment_intent": made.id, "amount": 500})
    assert refund.status == "succeeded"
    time.sleep(0.5)
    assert client(provider).v1.refunds.retrieve(refund.id).status == "failed"
    with pytest.raises(stripe.InvalidRequestError):
        client(provider).v1.refunds.create({"payment_intent": made.id, "amount": 5000})


def test_parallel_requests_with_one_key_charge_once(provider: SimulatedProvider) -> None:
    def try_once(_: int) -> str:
        try:
            return str(charge(provider, "crowded").id)
        except stripe.APIError as error:
            return f"refused {error.http_status}"

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        answers = set(threads.map(try_once, range(48)))
    assert len(answers - {"refused 409"}) == 1
    assert effects(provider, "crowded") == 1


def test_slow_answers_do_not_wait_for_each_other(provider: SimulatedProvider) -> None:
    made = charge(provider, "watched")
    provider.fault({"latency_ms": 50}, method="GET")
    url = f"{provider.url}/v1/payment_intents/{made.id}"
    limits = httpx.Limits(max_connections=50)
    with (
        httpx.Client(auth=("sk_test_sim", ""), limits=limits, trust_env=False) as http,
        concurrent.futures.ThreadPoolExecutor(50) as threads,
    ):
        began = time.monotonic()
        answers = list(threads.map(lambda _: http.get(url).status_code, range(200)))
        took = time.monotonic() - began
    assert set(answers) == {200}
    assert took < 5, "one after another they would take ten seconds"


def test_the_book_survives_sigkill(tmp_path: Path) -> None:
    provider = SimulatedProvider(tmp_path).start()
    try:
        action = {"commit_after_seconds": 1, "drop": "before"}
        provider.fault(action, times=1, metadata={"idem_key": "during"})
        made = charge(provider, "told")
        with pytest.raises(stripe.APIConnectionError):
            charge(provider, "during")
        provider.kill()
        provider.start()
        assert client(provider).v1.payment_intents.retrieve(made.id).status == "succeeded"
        assert charge(provider, "told").id == made.id
        assert effects(provider, "told") == 1
        provider.wait_for_effects(1, intent="during")
        assert charge(provider, "during").last_response.headers["Idempotent-Replayed"] == "true"
        assert effects(provider, "during") == 1
    finally:
        provider.stop()
