"""Records for report-mode tests, and a runtime to report them."""

import itertools
import json
from collections.abc import Iterable
from typing import Any

from django.db import connection

from operations import ingest, reading
from operations.actors import Runtime
from operations.canonical import derive_key
from operations.errors import DomainError
from operations.models import ApiKey

_IDS = itertools.count(1)


def runtime(environment: str = "live", namespace: str = "default") -> Runtime:
    """A runtime with a row of its own, so that lists over all scopes see it."""
    key, _ = ApiKey.objects.get_or_create(
        name=f"records {environment}/{namespace}",
        environment=environment,
        namespace=namespace,
        defaults={
            "scopes": [],
            "digest": f"{environment}/{namespace}".encode(),
            "token_prefix": "test",
        },
    )
    return Runtime(key.id, key.name, environment, namespace, frozenset())


def record(type_: str = "TOOL_INVOKED", call: str = "c1", **changes: Any) -> dict[str, Any]:
    """One record of run `run_1`, step 1; what is set to None is left out."""
    said: dict[str, Any] = {
        "record_id": f"rec-{next(_IDS)}",
        "type": type_,
        "run": {"id": "run_1"},
        "step": 1,
        "tool_call_id": call,
        "tool": "stripe.charge",
    } | changes
    return {name: value for name, value in said.items() if value is not None}


def report(who: Runtime, *records: dict[str, Any] | str, verbose: bool = True) -> dict[str, Any]:
    """Send one batch, dicts or exact texts."""
    texts = [item if isinstance(item, str) else json.dumps(item) for item in records]
    return ingest.ingest_records(texts, who, verbose=verbose)


def key_of(call: str = "c1", run: str = "run_1", step: int = 1) -> str:
    return derive_key(run, step, call)


def read(who: Runtime, key: str) -> dict[str, Any]:
    return reading.read_operation(who.scope, key)


def read_or_none(who: Runtime, key: str) -> dict[str, Any] | None:
    try:
        return read(who, key)
    except DomainError:
        return None


def state_of(who: Runtime, key: str) -> tuple[str, str | None]:
    document = read(who, key)
    return document["state"], document["failure"]


def incident_kinds(who: Runtime) -> list[tuple[str, str]]:
    """Every incident that stands, as (kind, operation's key or '')."""
    with connection.cursor() as cur:
        cur.execute(
            """SELECT i.kind, coalesce(o.idem_key, '') FROM operations_incident i
               LEFT JOIN operations_operation o ON o.id = i.operation_id
               WHERE i.environment = %s AND i.namespace = %s AND i.resolved_at IS NULL
               ORDER BY 1, 2""",
            [who.environment, who.namespace],
        )
        return list(cur.fetchall())


def statuses(answer: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(item["status"], item["code"]) for item in answer["results"]]


def events_of(key: str) -> list[str]:
    with connection.cursor() as cur:
        cur.execute(
            """SELECT e.type FROM operations_event e
               JOIN operations_operation o ON o.id = e.operation_id
               WHERE o.idem_key = %s ORDER BY e.version""",
            [key],
        )
        return [row[0] for row in cur.fetchall()]


def batches(records: Iterable[Any], sizes: Iterable[int]) -> Iterable[list[Any]]:
    """Cut a sequence into batches of the given sizes; what is left is the last one."""
    rest = list(records)
    for size in sizes:
        if not rest:
            return
        yield rest[:size]
        rest = rest[size:]
    if rest:
        yield rest
