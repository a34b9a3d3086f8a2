"""What is measured, against which goal, and with which ratio to raw SQL in the same run."""

import json
import sys
from typing import Any

from bench import generators, raw_sql
from bench import lists as list_bench
from bench import noise as noise_bench
from bench import waiting as waiting_bench
from bench.product import Running
from bench.reviewer import Reviewer
from bench.table import Row

CLIENTS = (1, 8, 32)
_GOALS = {"calls": 350.0, "p95": 40.0, "records": 8000.0, "batch_p95": 150.0, "woken": 50.0}
_LIST_GOAL = 5.0


def noise(product: Running) -> dict[str, Any]:
    """The machine before anything is measured."""
    return noise_bench.measure(product.folder)


def tool_calls(product: Running, seconds: int) -> list[Row]:
    """Claim and outcome, two authenticated requests each, beside the same writes as raw SQL."""
    target, rows = product.target(), []
    generators.run(target, "tool_calls", clients=8, seconds=2)  # plans, caches, pages
    for clients in CLIENTS:
        raw = raw_sql.tool_calls(
            product.database_url, clients=clients, seconds=max(3, seconds // 2)
        )
        seen = generators.run(target, "tool_calls", clients=clients, seconds=seconds)
        _complain(seen)
        is_goal = clients == CLIENTS[-1]
        p95 = max(seen.percentile("claim", 0.95), seen.percentile("outcome", 0.95))
        rows += [
            Row(
                what=f"durable tool calls, {clients} clients",
                value=seen.per_second,
                unit="/s",
                goal=_GOALS["calls"] if is_goal else None,
                note=f"{seen.per_second / raw:.2f} of raw SQL ({raw:,.0f}/s)",
                details={"raw_sql": raw, "failed": seen.failed, **_latencies(seen)},
            ),
            Row(
                what=f"request p95, {clients} clients",
                value=p95,
                unit="ms",
                goal=_GOALS["p95"] if is_goal else None,
                at_least=False,
                note=f"claim p50 {seen.percentile('claim', 0.5):.1f}, "
                f"outcome p50 {seen.percentile('outcome', 0.5):.1f}",
            ),
        ]
    return rows


def records(product: Running, seconds: int) -> list[Row]:
    """Batches of records through HTTP."""
    target, rows = product.target(), []
    generators.run(target, "records", clients=2, seconds=1, size=100)
    for size, clients in ((100, 4), (1000, 2)):
        raw = raw_sql.record_rows(product.database_url, clients=clients, seconds=3, size=size)
        seen = generators.run(target, "records", clients=clients, seconds=seconds, size=size)
        _complain(seen)
        rows += [
            Row(
                what=f"records, {size} a request, {clients} clients",
                value=seen.per_second,
                unit="/s",
                goal=_GOALS["records"],
                note=f"{seen.per_second / raw:.2f} of single-table inserts ({raw:,.0f}/s)",
                details={"raw_sql_rows": raw, "failed": seen.failed, **_latencies(seen)},
            ),
            Row(
                what=f"batch p95, {size} a request",
                value=seen.percentile("batch", 0.95),
                unit="ms",
                goal=_GOALS["batch_p95"] if size == 100 else None,
                at_least=False,
            ),
        ]
    return rows


def waiting(product: Running, waiters: list[int]) -> list[Row]:
    """Decision to agent, through a real signature."""
    reviewer = Reviewer(product.product, product.folder)
    target = product.target(environment="live")
    rows = []
    for count in waiters:
        woken = waiting_bench.measure(target, reviewer, count)
        answered = generators.percentile(woken.from_answer, 0.95)
        rows.append(
            Row(
                what=f"decision to agent p95, {count} waiters",
                value=woken.percentile(0.95),
                unit="ms",
                goal=_GOALS["woken"],
                at_least=False,
                note=f"p50 {woken.percentile(0.5):.1f}, p99 {woken.percentile(0.99):.1f}; "
                f"p95 {answered:.1f} after the reviewer's own answer",
            )
        )
    return rows


def lists(product: Running, count: int) -> list[Row]:
    """SQL of lists and badges over many operations, and one list through HTTP."""
    list_bench.seed(product.database_url, count)
    found = json.loads(list_bench.measure(product.folder, count))
    rows = [
        Row(
            what=f"{name} (SQL p95)",
            value=took["p95_ms"],
            unit="ms",
            goal=_LIST_GOAL,
            at_least=False,
            note=f"p50 {took['p50_ms']:.2f}; {count:,} operations",
        )
        for name, took in found.items()
    ]
    target = product.target(namespace=list_bench.NAMESPACE)
    path = "/api/v1/operations?state=UNKNOWN"
    seen = generators.run(target, "requests", clients=4, seconds=3, path=path)
    _complain(seen)
    rows.append(
        Row(
            what="list of UNKNOWN over HTTP, p95, 4 clients",
            value=seen.percentile("get", 0.95),
            unit="ms",
            note=f"{seen.per_second:,.0f}/s, 50 items each",
        )
    )
    return rows


def _latencies(seen: generators.Result) -> dict[str, dict[str, float]]:
    return {
        name: {f"p{share * 100:g}": seen.percentile(name, share) for share in (0.5, 0.95, 0.99)}
        for name in seen.latencies
    }


def _complain(seen: generators.Result) -> None:
    for what, count in seen.failed.items():
        print(f"  {count} × {what}", file=sys.stderr)
