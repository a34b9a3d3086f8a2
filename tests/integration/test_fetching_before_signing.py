"""The object that a person names is fetched before they sign, and what it showed is signed too."""

import json
from collections.abc import Iterator
from hashlib import sha256

import pytest
from django.urls import reverse

from approvals.models import PendingStatement, Resolution
from operations.models import Operation
from reconcilers import services, single_object
from reconcilers.models import ProviderAccount
from tests.integration.test_signing_pages import data, hidden, signed_in
from tests.support import approving
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.reconciling import CHARGE, Call, World, look_now, publish
from tests.support.simulated_provider import SimulatedProvider

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture
def world(simulator: SimulatedProvider) -> Iterator[World]:
    publish(charge=CHARGE)
    here = World(simulator)
    here.account()
    yield here
    simulator.clear_faults()


@pytest.fixture
def operator() -> approving.Person:
    return approving.person()


def start(who: approving.Person, call: Call, ref: str, **more: str) -> tuple[int, str]:
    handle = Operation.objects.get(pk=call.id).handle
    answer = signed_in(who.user).post(
        reverse("settle-start", args=[handle]),
        {"choice": "settle-committed", "provider_ref": ref, **more},
    )
    return answer.status_code, answer.content.decode()


def test_the_object_is_shown_and_its_digest_is_signed(world: World, operator) -> None:
    call = world.doubtful()
    intent = call.send()
    handle = call.operation.handle
    client = signed_in(operator.user)
    html = client.post(
        reverse("settle-start", args=[handle]),
        {"choice": "settle-committed", "provider_ref": intent.id},
    ).content.decode()
    for words in (
        "What the provider shows",
        "USD 250.00",
        "succeeded",
        "this operation&#x27;s key",
    ):
        assert words in html
    assert "Look twice:" not in html
    answer = operator.passkey.get(json.loads(data(html, "options")))
    client.post(
        reverse("settle-finish", args=[handle]),
        {"statement": hidden(html, "statement"), "answer": json.dumps(answer)},
    )
    resolution = Resolution.objects.get(operation=call.id)
    kept = bytes(resolution.fetched)
    predicate = json.loads(bytes(resolution.statement))["predicate"]
    assert predicate["evidence"]["object_sha256"] == sha256(kept).hexdigest()
    shown = json.loads(kept)
    assert (shown["outcome"], shown["marker"], shown["amount_minor"]) == ("found", "ours", 25_000)
    assert shown["mode"] == "test"
    assert call.operation.state == "COMMITTED"


def test_an_object_of_another_call_needs_words(world: World, operator) -> None:
    call, other = world.doubtful(), world.doubtful(amount=900)
    foreign = other.send()
    status, html = start(operator, call, foreign.id)
    assert status == 422
    assert "carries the key of another call" in html
    status, html = start(operator, call, foreign.id, reason="The key was set wrongly by hand.")
    assert status == 200
    assert "Its amount is not the one that was asked for." in html


def test_an_id_that_is_not_there_needs_words(world: World, operator) -> None:
    call = world.doubtful()
    status, html = start(operator, call, "pi_missing")
    assert status == 422
    assert "has no pi_missing" in html
    status, html = start(operator, call, "pi_missing", reason="Support read it to me.")
    assert status == 200
    assert "There is no pi_missing" in html


def test_a_provider_that_does_not_answer_never_blocks_a_person(world: World, operator) -> None:
    call = world.doubtful()
    intent = call.send()
    world.simulator.fault({"status": 500}, method="GET")
    status, html = start(operator, call, intent.id)
    assert status == 200
    assert "could not be asked just now" in html
    shown = json.loads(bytes(PendingStatement.objects.latest("created_at").attachment))
    assert shown["outcome"] == "cannot_look"
    assert shown["reason"]


def test_a_slow_provider_is_given_up_after_a_while(world: World) -> None:
    call = world.doubtful()
    world.simulator.fault({"latency_ms": 2000}, method="GET")
    seen = single_object.fetch(call.id, "pi_slow", seconds=0.3)
    assert seen is not None
    assert (seen.outcome, "0.3 seconds" in seen.reason) == ("cannot_look", True)


def test_a_paused_account_and_none_at_all_are_said_in_words(world: World) -> None:
    call = world.doubtful()
    account = ProviderAccount.objects.get(namespace=world.namespace)
    services.pause_account(account.id, actor="user:tests")
    paused = single_object.fetch(call.id, "pi_1")
    assert paused is not None
    assert "paused" in paused.reason
    account.delete()
    nobody = single_object.fetch(call.id, "pi_1")
    assert nobody is not None
    assert nobody.outcome == "cannot_look"
    assert "no provider account" in nobody.reason


def test_the_engine_says_how_long_a_provider_may_still_act(world: World) -> None:
    timed_out, failed = world.doubtful(), world.claim()
    failed.report("unknown", error={"type": "api_error", "message": "500", "http_status": 500})
    look_now(timed_out, failed)
    assert timed_out.operation.verdict["lifetime_seconds"] == CHARGE["provider_max_seconds"]
    assert failed.operation.verdict["lifetime_seconds"] == 24 * 3600
