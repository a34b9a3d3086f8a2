"""Operations settled by the real engine against a customer's own Postgres."""

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from operations import closing
from reconcilers import accounts, services
from tests.providers.sql_bench import EXAMPLE, SqlBench
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.reconciling import Call, World, look_now, publish

pytestmark = pytest.mark.django_db

BOOK: dict[str, Any] = {
    "tool_class": "unsafe",
    "provider": "sql",
    "reconciler": "sql",
    "provider_object": "row",
    "client_timeout_seconds": 1,
    "provider_max_seconds": 900,
    "lease_seconds": 30,
}


@pytest.fixture
def world(shop: SqlBench) -> World:
    publish(book=BOOK, book__or_bury=BOOK | {"lookups": ["row", "tombstone"]})
    nowhere: Any = SimpleNamespace(url="http://127.0.0.1:1")
    world = World(nowhere)
    accounts.create_account(
        "sql",
        environment="test",
        namespace=world.namespace,
        name="sql",
        document=shop.config(),
    )
    return world


def verdict(call: Call) -> tuple[str, str]:
    operation = call.operation
    return operation.state, operation.verdict["kind"]


def statuses(shop: SqlBench, call: Call) -> list[str]:
    found = shop.admin.execute("SELECT status FROM payments WHERE idem_key = %s", (call.key,))
    return [status for (status,) in found]


def test_a_row_that_is_there_settles_it(world, shop):
    call = world.doubtful("book")
    shop.make_effect(call.key)
    look_now(call)
    assert verdict(call) == ("COMMITTED", "committed")
    assert call.findings[-1].lookup_class == "A"


def test_before_the_settle_point_an_empty_table_proves_nothing(world, shop):
    call = world.doubtful("book.or_bury")
    look_now(call)
    assert verdict(call) == ("UNKNOWN", "waiting")
    assert statuses(shop, call) == []


def test_a_closed_intent_is_buried_at_once_and_its_original_can_never_land(world, shop):
    call = world.doubtful("book.or_bury")
    closing.close(world.runtime, call.key)
    look_now(call)
    assert verdict(call)[0] == "FAILED"
    assert call.findings[-1].lookup_class == "T"
    assert statuses(shop, call) == [EXAMPLE["tombstone_status"]]
    with pytest.raises(psycopg.errors.UniqueViolation):
        shop.make_effect(call.key)


def test_a_closed_intent_whose_tool_names_no_tombstone_is_not_buried(world, shop):
    call = world.doubtful("book")
    closing.close(world.runtime, call.key)
    look_now(call)
    assert verdict(call) == ("UNKNOWN", "waiting")
    assert statuses(shop, call) == []


def test_the_key_of_a_live_attempt_is_never_taken(world, shop):
    call = world.claim("book.or_bury")
    closing.close(world.runtime, call.key)
    services.ask_again(call.id, actor="user:tests")
    look_now(call)
    assert call.operation.state == "INVOKED"
    assert call.findings, "it was asked, so it could have been buried"
    assert statuses(shop, call) == []


def test_a_closed_intent_that_has_happened_is_committed(world, shop):
    call = world.doubtful("book.or_bury")
    shop.make_effect(call.key)
    closing.close(world.runtime, call.key)
    look_now(call)
    assert verdict(call) == ("COMMITTED", "committed")
    assert statuses(shop, call) == ["paid"]
