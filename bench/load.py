"""One process of the load generator: `python -m bench.load` reads its job as JSON from stdin.

Answers on stdout with what every client saw: latencies in milliseconds and how many went wrong.
"""

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

from bench.wire import Connection, get, post

_CALLS_PER_RUN = 20


class Seen:
    """What one process measured."""

    def __init__(self) -> None:
        self.latencies: dict[str, list[float]] = {}
        self.done = 0
        self.failed: dict[str, int] = {}

    def took(self, what: str, began: float) -> None:
        """Note a latency."""
        self.latencies.setdefault(what, []).append((time.perf_counter() - began) * 1000)

    def wrong(self, status: int, body: bytes) -> None:
        """Note an answer that was not the expected one."""
        name = f"{status} {body[:200].decode(errors='replace')}" if len(self.failed) < 5 else "…"
        self.failed[name] = self.failed.get(name, 0) + 1


async def tool_calls(job: dict[str, Any], seen: Seen, client: int) -> None:
    """Claim and report, again and again: what a runtime does around each tool call."""
    connection = await Connection.open(job["host"], job["port"])
    key = job["key"].encode()
    call = 0
    while time.time() < job["until"]:
        run = f"{job['tag']}-{client}-{call // _CALLS_PER_RUN}"
        claim = (
            f'{{"run":{{"id":"{run}","agent":"bench","agent_version":"1.0"}},"step":{call % 20},'
            f'"tool_call_id":"call_{call}","tool":"bench.tool",'
            f'"args":{{"customer":"cus_{client}","amount":25000,"currency":"usd","n":{call}}},'
            f'"attempt":{{"id":"{run}-{call}","layer":"step","worker":"w{client}"}},'
            f'"lease_seconds":60,"fenced":true,"send_token":"token-{run}-{call}"}}'
        ).encode()
        began = time.perf_counter()
        status, body = await connection.ask(post(b"/api/v1/operations", key, claim))
        seen.took("claim", began)
        if status != 201:
            seen.wrong(status, body)
            call += 1
            continue
        at = body.index(b'"idem_key":"') + 12
        idem_key = body[at : body.index(b'"', at)]
        report = (
            f'{{"attempt_number":1,"attempt_id":"{run}-{call}","outcome":"committed",'
            f'"result":{{"id":"ch_{client}_{call}","status":"succeeded"}},'
            f'"provider_ref":"ch_{run}_{call}"}}'
        ).encode()
        reported = time.perf_counter()
        path = b"/api/v1/operations/" + idem_key + b"/outcome"
        status, body = await connection.ask(post(path, key, report))
        seen.took("outcome", reported)
        if status == 200:
            seen.took("call", began)
            seen.done += 1
        else:
            seen.wrong(status, body)
        call += 1
    connection.close()


async def records(job: dict[str, Any], seen: Seen, client: int) -> None:
    """Batches of records: an INVOKED and a COMMITTED for each call, as exporters send them."""
    connection = await Connection.open(job["host"], job["port"])
    key, size, number = job["key"].encode(), job["size"], 0
    while time.time() < job["until"]:
        body = _batch(job["tag"], client, number, size)
        began = time.perf_counter()
        status, answer = await connection.ask(post(b"/api/v1/records", key, body))
        seen.took("batch", began)
        if status == 200:
            seen.done += size
        else:
            seen.wrong(status, answer)
        number += 1
    connection.close()


async def requests(job: dict[str, Any], seen: Seen, client: int) -> None:
    """The same GET again and again."""
    connection = await Connection.open(job["host"], job["port"])
    request = get(job["path"].encode(), job["key"].encode())
    while time.time() < job["until"]:
        began = time.perf_counter()
        status, body = await connection.ask(request)
        seen.took("get", began)
        if status == 200:
            seen.done += 1
        else:
            seen.wrong(status, body)
    connection.close()


def _batch(tag: str, client: int, number: int, size: int) -> bytes:
    rows = []
    for index in range(size // 2):
        call = f"{tag}-{client}-{number}-{index}"
        about = (
            f'"run":{{"id":"{tag}-{client}-{number}","agent":"bench"}},"step":{index},'
            f'"tool_call_id":"{call}","tool":"bench.tool","attempt":{{"id":"a1"}}'
        )
        rows.append(
            f'{{"record_id":"{call}-i","type":"TOOL_INVOKED",{about},'
            f'"args":{{"customer":"cus_{client}","amount":{index},"currency":"usd"}}}}'
        )
        rows.append(
            f'{{"record_id":"{call}-c","type":"TOOL_COMMITTED",{about},'
            f'"result":{{"id":"ch_{index}"}},"provider_ref":"ch_{call}"}}'
        )
    return f"[{','.join(rows)}]".encode()


_SCENARIOS = {"tool_calls": tool_calls, "records": records, "requests": requests}


async def main() -> None:
    """Run the job."""
    job = json.load(sys.stdin)
    seen = Seen()
    scenario = _SCENARIOS[job["scenario"]]
    first = job["first_client"]
    began = time.perf_counter()
    await asyncio.gather(*(scenario(job, seen, first + n) for n in range(job["clients"])))
    took = time.perf_counter() - began
    json.dump(
        {"seconds": took, "done": seen.done, "failed": seen.failed, "latencies": seen.latencies},
        sys.stdout,
    )


if __name__ == "__main__":
    uvloop.run(main())
