"""One process of the reconciler at work: `python -m bench.settling` reads its job from stdin.

Makes operations in doubt whose effects exist at the simulated provider, then runs one engine until
all are settled, and answers on stdout: seconds on the clock and of this process's own CPU.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()

import aiohttp  # noqa: E402
from django.db import connection, connections  # noqa: E402
from django.db.backends.postgresql.base import DatabaseWrapper  # noqa: E402

from operations import ingest  # noqa: E402
from operations.actors import Runtime  # noqa: E402
from operations.canonical import derive_key  # noqa: E402
from reconcilers import accounts, cadence, engine, sweeps  # noqa: E402
from tests.support.reconciling import CHARGE, publish  # noqa: E402

_BATCH = 2000
#: The engine waits so long for what comes due, which is no work.
_PATIENCE_SECONDS = 1.5
_UNLIMITED = 100_000
_NOT_SETTLED = "SELECT count(*) FROM operations_standing WHERE namespace = %s AND state = 'UNKNOWN'"
_TELL_IDS = """
UPDATE operations_attempt AS a SET provider_ref = said.ref
  FROM operations_operation o, unnest(%s::text[], %s::text[]) AS said (key, ref)
 WHERE a.operation_id = o.id AND o.idem_key = said.key
"""
_LOOKS = "SELECT count(*) FROM reconcilers_finding f JOIN operations_operation o ON \
o.id = f.operation_id WHERE o.namespace = %s"


def main(job: dict[str, Any]) -> dict[str, Any]:
    """`count` operations at `provider`, looked for by `lookup`; `limit` is requests per second."""
    namespace = f"settling-{uuid4().hex[:8]}"
    key = f"sk_test_sim{namespace.replace('-', '')}"
    limit = job.get("limit") or _UNLIMITED
    publish(charge=CHARGE | {"lookups": [job["lookup"]]})
    accounts.create_account(
        "stripe",
        environment="test",
        namespace=namespace,
        name="stripe",
        document={
            "secret_key": key,
            "base_url": job["provider"],
            "limits": {"account": limit, "search": limit, "*": limit},
        },
    )
    runs = [f"{namespace}-{number}" for number in range(job["count"])]
    found = asyncio.run(_effects(job["provider"], key, runs))
    _doubts(namespace, runs)
    if job["lookup"] == "get":
        _tell_ids({derive_key(run, 1, "call"): ref for run, ref in found.items()})
    with connection.cursor() as cur:
        cur.execute("ANALYZE operations_operation, operations_attempt")
    if job.get("latency_ms"):
        asyncio.run(_slow_down(job["provider"], job["latency_ms"]))
    return _settle(namespace, job["seconds"])


def _settle(namespace: str, seconds: float) -> dict[str, Any]:
    began, cpu = time.perf_counter(), _cpu()
    while sweeps.run_once()["missing"]:
        continue
    counts = engine.run(seconds, patience_seconds=_PATIENCE_SECONDS)
    took, spent = time.perf_counter() - began, _cpu() - cpu
    with connection.cursor() as cur:
        cur.execute(_NOT_SETTLED, (namespace,))
        left = cur.fetchone()[0]
        cur.execute(_LOOKS, (namespace,))
        looks = cur.fetchone()[0]
    working = took - _PATIENCE_SECONDS - cadence.FIRST_LOOK.total_seconds()
    return {
        "seconds": took,
        "working_seconds": working,
        "cpu": spent,
        "left": left,
        "looks": looks,
        "counts": dict(counts),
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _doubts(namespace: str, runs: Sequence[str]) -> None:
    """Records of sends whose answer never came."""
    runtime = Runtime(uuid4(), "bench", "test", namespace, frozenset())
    texts = [
        json.dumps(
            {
                "record_id": f"rec-{run}",
                "type": "TOOL_UNKNOWN",
                "run": {"id": run, "agent": "bench"},
                "step": 1,
                "tool_call_id": "call",
                "tool": "charge",
                "args": {"amount": 25_000, "currency": "usd"},
            }
        )
        for run in runs
    ]
    for start in range(0, len(texts), _BATCH):
        ingest.ingest_records(texts[start : start + _BATCH], runtime)


def _tell_ids(refs: dict[str, str]) -> None:
    """As if the senders had heard the ids of their objects before they were cut off."""
    with connection.cursor() as cur:
        cur.execute(_TELL_IDS, (list(refs), list(refs.values())))


async def _effects(provider: str, key: str, runs: Sequence[str]) -> dict[str, str]:
    """Run -> the id of its payment."""
    made: dict[str, str] = {}
    waiting = iter(runs)

    async def work(session: aiohttp.ClientSession) -> None:
        for run in waiting:
            marker = derive_key(run, 1, "call")
            form = urlencode(
                {
                    "amount": 25_000,
                    "currency": "usd",
                    "confirm": "true",
                    "payment_method": "pm_card_visa",
                    "metadata[idem_key]": marker,
                }
            )
            headers = {
                "Authorization": f"Bearer {key}",
                "Idempotency-Key": marker,
                "Content-Type": "application/x-www-form-urlencoded",
            }
            url = f"{provider}/v1/payment_intents"
            async with session.post(url, data=form, headers=headers) as answer:
                made[run] = (await answer.json())["id"]

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(work(session) for _ in range(16)))
    return made


async def _slow_down(provider: str, latency_ms: float) -> None:
    rule = {"match": {"method": "GET"}, "action": {"latency_ms": latency_ms}}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{provider}/_faults", json=rule) as answer,
    ):
        answer.raise_for_status()


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
    connections.close_all()
    if isinstance(connection, DatabaseWrapper):
        connection.close_pool()
