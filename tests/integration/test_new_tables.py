"""A new instance looks keys up by their unique indexes, before any table was ever analysed."""

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from django.db import connection

from operations.reports import calls
from tests.support.records import record, report, runtime

pytestmark = pytest.mark.django_db

CALLS = 300
ONE = """
SELECT id FROM operations_operation WHERE environment = %s AND namespace = %s AND idem_key = %s"""


def plan_of(sql: str, params: Sequence[str] | Mapping[str, Any]) -> str:
    with connection.cursor() as cur:
        cur.execute("SET LOCAL enable_seqscan = off")
        cur.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        return json.dumps(cur.fetchone()[0])


#: What other tests have let Postgres learn is forgotten, as far as this transaction sees.
_FORGET = """
SELECT pg_clear_attribute_stats(current_schema()::text, relname::text, attname::text, false)
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
 WHERE relname IN ('operations_operation', 'operations_run', 'operations_standing')
   AND attnum > 0 AND NOT attisdropped"""
_FIRST = importlib.import_module("operations.migrations.0006_first_statistics")


@pytest.fixture(autouse=True)
def many_calls() -> None:
    with connection.cursor() as cur:
        if connection.connection.info.server_version < 180000:
            pytest.skip("statistics cannot be said beforehand")
        cur.execute(_FORGET)
        cur.execute(_FIRST.STATISTICS)
    report(runtime(), *(record(tool_call_id=f"call_{number}") for number in range(CALLS)))


def test_one_key_is_looked_up_by_the_unique_index() -> None:
    plan = plan_of(ONE, ["test", "default", "k"])
    assert "operation_idem_key_is_unique" in plan
    assert "operation_by_age" not in plan


def test_the_keys_of_a_batch_are_looked_up_by_the_unique_indexes() -> None:
    keys = ["k1", "k2"]
    scope: dict[str, Any] = {"environment": "test", "namespace": "default"}
    plan = plan_of(calls._FIND, {**scope, "keys": keys, "derived": keys})
    assert "operation_idem_key_is_unique" in plan
    assert "operation_call_is_unique" in plan
    assert "operation_by_age" not in plan
