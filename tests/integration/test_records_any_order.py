"""Whatever order records come in, and however they are cut into batches: one state, one set of
incidents (design: the domain, rule 7). Alone, and beside operations of claim mode.
"""

import itertools
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations import catalogue, gates, ingest, intents, leases, naming, rows
from operations.actors import Runtime
from operations.claims import ClaimRequest
from operations.intents import Recorded
from tests.support.records import batches, key_of, runtime

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

ORDERS_EACH = 25
EXAMPLES = 40
_NAMESPACES = itertools.count(1)

CALLS = st.sampled_from(["c1", "c2"])
TYPES = st.sampled_from(
    ["TOOL_INVOKED", "TOOL_SENDING", "TOOL_COMMITTED", "TOOL_FAILED", "TOOL_UNKNOWN"]
)
ABOUT_CALLS = st.fixed_dictionaries(
    {
        "type": TYPES,
        "run": st.sampled_from([{"id": "run_1"}, {"id": "run_1", "agent": "a"}]),
        "step": st.just(1),
        "tool_call_id": CALLS,
        "tool": st.just("stripe.charge"),
    },
    optional={
        "attempt": st.sampled_from([{"id": "a"}, {"id": "b"}, {"id": "c"}]),
        "effect": st.just("none"),
        "permanent": st.booleans(),
        "replayed": st.booleans(),
        "provider_ref": st.sampled_from(["pi_1", "pi_2"]),
        "result": st.sampled_from([1, {"a": 1}]),
        "args": st.sampled_from([{"n": 1}, {"n": 1}, {"n": 2}]),
    },
)
OTHERS = st.sampled_from(
    [
        {"type": "RUN_STARTED", "run": {"id": "run_1", "agent": "a", "agent_version": "1"}},
        {"type": "RUN_STARTED", "run": {"id": "run_1", "agent": "a", "agent_version": "2"}},
        {"type": "RUN_FINISHED", "run": {"id": "run_1"}},
        {"type": "LLM_RESPONDED", "run": {"id": "run_1"}, "step": 1, "model_output": "x"},
        {"type": "STEP_COMPLETED", "run": {"id": "run_1"}, "step": 1},
        {"type": "RESULT_DELIVERED", "run": {"id": "run_1"}, "step": 1, "tool_call_id": "c1",
         "tool": "stripe.charge"},
        {"type": "TOOL_COMMITTED", "run": {"id": "run_1"}, "step": 1, "tool_call_id": "",
         "tool": "stripe.charge", "args": {"n": 9}},
        {"type": "TOOL_INVOKED", "run": {"id": "run_1"}, "step": 1, "bogus": 1},
    ]
)  # fmt: skip
SETS = st.lists(st.one_of(ABOUT_CALLS, ABOUT_CALLS, OTHERS), min_size=2, max_size=8)

type Snapshot = tuple[Any, ...]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(SETS, st.integers(0, 2**32), st.booleans())
def test_every_order_of_a_set_of_records_gives_the_same(
    said: list[dict[str, Any]], seed: int, reuse: bool
) -> None:
    """A thousand orders in all: 25 of each set."""
    if reuse:
        said = [*said[:-1], {**said[-1], "record_id": "r0"}]
    every_order_agrees(said, seed)


@pytest.mark.parametrize("gate", ["none", "waiting", "granted", "refused"])
@pytest.mark.parametrize("live", [False, True], ids=["pending", "invoked"])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(SETS, st.integers(0, 2**32))
def test_so_it_does_beside_operations_of_claim_mode(
    gate: str, live: bool, said: list[dict[str, Any]], seed: int
) -> None:
    def prepare(who: Runtime, run: str) -> None:
        claim(who, run, "c1", gate=gate, live=live)

    every_order_agrees(said, seed, prepare, orders=10)


def every_order_agrees(
    said: list[dict[str, Any]],
    seed: int,
    prepare: Callable[[Runtime, str], None] = lambda who, run: None,
    orders: int = ORDERS_EACH,
) -> None:
    """Each order happens in a run of its own; the n-th batches of all runs travel together."""
    shuffle = random.Random(seed)
    who = runtime(namespace=f"orders-{next(_NAMESPACES)}")
    told = []
    for number in range(orders):
        prepare(who, f"run-{number}")
        order = numbered(said, number)
        if number:
            shuffle.shuffle(order)
            order += shuffle.sample(order, len(order) // 3)  # and some of it twice
        sizes = [shuffle.randint(1, 4) for _ in order] if number else [len(order)]
        told.append(list(batches(order, sizes)))
    for together in itertools.zip_longest(*told, fillvalue=[]):
        batch = [text for part in together for text in part]
        if shuffle.random() < 0.3:
            shuffle.shuffle(batch)
        ingest.ingest_records(batch, who)
    expected = snapshot(who, 0)
    for number in range(1, orders):
        assert snapshot(who, number) == expected, told[number]


def snapshot(who: Runtime, number: int) -> Snapshot:
    """What one order's run came to: operations, run, incidents."""
    run = f"run-{number}"
    with connection.cursor() as cur:
        cur.execute(
            """SELECT o.tool_call_id, o.state, o.failure, o.attempts, r.status
               FROM operations_operation o JOIN operations_run r ON r.id = o.run_id
               WHERE r.namespace = %s AND r.run_id = %s ORDER BY 1""",
            [who.namespace, run],
        )
        operations = tuple(cur.fetchall())
        cur.execute(
            """SELECT i.kind, o.tool_call_id FROM operations_incident i
               LEFT JOIN operations_operation o ON o.id = i.operation_id
               LEFT JOIN operations_run r ON r.id = i.run_id
               WHERE i.namespace = %s AND i.resolved_at IS NULL
                 AND (r.run_id = %s OR i.cause = %s) ORDER BY 1, 2""",
            [who.namespace, run, f"{number}-r0"],
        )
        return operations, tuple(cur.fetchall())


def numbered(said: list[dict[str, Any]], number: int) -> list[str]:
    """The records of one order: its own run, and ids of its own."""
    records = []
    for index, record in enumerate(said):
        run = {**record["run"], "id": f"run-{number}"}
        name = record.get("record_id", f"r{index}")
        records.append({**record, "record_id": f"{number}-{name}", "run": run})
    return [json.dumps(record) for record in records]


def claim(who: Runtime, run: str, call: str, *, gate: str, live: bool) -> None:
    """An operation that claim mode recorded, gated or not, pending or being carried out."""
    request = ClaimRequest(
        run_id=run, agent="a", step=1, tool="stripe.charge", args={"n": 1}, args_raw=b'{"n":1}',
        tool_call_id=call, attempt_id="live", lease_seconds=3600,
    )  # fmt: skip
    soon = datetime.now(UTC) + timedelta(hours=1)
    with rows.hot_cursor() as cur:
        known = catalogue.current(cur)
        made = intents.record_intent(cur, naming.describe(request, who, known), who)
        assert isinstance(made, Recorded)
        op = made.op
        assert op.idem_key == key_of(call, run)
        if gate != "none":
            gates.open_gate(cur, op, "apr_1", soon, actor="system:test")
        if gate in ("granted", "refused") or live:
            gates.grant_gate(cur, op, "apr_1", soon, actor="user:test")
        if live:
            facts = known.facts(op.tool)
            leases.grant(cur, op, request, who, facts=facts, gate_ref=op.gate_ref)
        if gate == "refused":
            gates.refuse_gate(cur, op, "apr_1", "denied", actor="user:test")
