"""Operations settled by the real engine against an interface that the account describes."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import F

from reconcilers import accounts
from reconcilers.models import Finding, ProviderAccount
from tests.providers.test_http import RUMOUR, HttpBench
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.orders_server import OrdersServer
from tests.support.reconciling import Call, World, look_now, publish, travel

pytestmark = pytest.mark.django_db

ORDER: dict[str, Any] = {
    "tool_class": "idempotent",
    "provider": "http",
    "reconciler": "http",
    "provider_object": "object",
    "client_timeout_seconds": 1,
    "provider_max_seconds": 900,
    "lease_seconds": 30,
    "amount_pointer": "/amount",
    "currency_pointer": "/currency",
}
PAST_SETTLING = 1200
SIX_SECONDS = timedelta(seconds=6)


@pytest.fixture
def bench() -> Iterator[HttpBench]:
    server = OrdersServer()
    server.start()
    yield HttpBench(server)
    server.stop()


@pytest.fixture
def world() -> World:
    publish(order=ORDER)
    nowhere: Any = SimpleNamespace(url="http://127.0.0.1:1")
    return World(nowhere)


def account(world: World, bench: HttpBench, **changes: Any) -> ProviderAccount:
    return accounts.create_account(
        "http",
        environment="test",
        namespace=world.namespace,
        name="http",
        document=bench.config(**changes),
    )


def verdict(call: Call) -> tuple[str, str]:
    operation = call.operation
    return operation.state, operation.verdict["kind"]


def two_reads(call: Call) -> None:
    look_now(call)
    earlier = {"started_at": F("started_at") - SIX_SECONDS, "ended_at": F("ended_at") - SIX_SECONDS}
    Finding.objects.filter(operation=call.id).update(**earlier)
    look_now(call)


def test_an_order_settles_it_and_the_account_learns_whose_it_is(world, bench):
    row = account(world, bench)
    call = world.doubtful("order")
    bench.server.order(call.key, total="250.00", currency="usd")
    look_now(call)
    assert verdict(call) == ("COMMITTED", "committed")
    row.refresh_from_db()
    assert row.external_id == "merchant-7"


def test_an_order_of_another_amount_is_a_conflict(world, bench):
    account(world, bench)
    call = world.doubtful("order")
    bench.server.order(call.key, total="25.00", currency="usd")
    look_now(call)
    assert verdict(call) == ("UNKNOWN", "conflict")


def test_two_reads_of_a_list_that_is_promised_to_be_whole_prove_absence(world, bench):
    account(world, bench)
    call = world.doubtful("order")
    look_now(call)
    assert verdict(call)[1] == "waiting"
    travel(call, PAST_SETTLING)
    two_reads(call)
    assert verdict(call) == ("PENDING", "absent")


def test_no_number_of_reads_of_a_rumour_does(world, bench):
    account(world, bench, **RUMOUR, item_url=f"{bench.server.url}/orders/{{id}}")
    call = world.doubtful("order")
    travel(call, PAST_SETTLING)
    two_reads(call)
    look_now(call)
    assert call.operation.state == "UNKNOWN"
    assert verdict(call)[1] != "absent"
