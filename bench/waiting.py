"""Decision to waiting agent: many agents long-poll, one reviewer signs again and again.

The clock starts when the signature is handed in and stops when the agent has its answer, so it
holds the check of the signature, the commit, the published checkpoint, the wake-ups and the reads.
"""

import asyncio
import json
import time
from dataclasses import dataclass

from bench.generators import Target, percentile
from bench.reviewer import Reviewer
from bench.wire import Connection, get, post

_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Woken:
    """From handing in the signature, and from its answer, to the agent's answer, milliseconds."""

    waiters: int
    from_request: list[float]
    from_answer: list[float]

    def percentile(self, share: float) -> float:
        """Of the longer of the two."""
        return percentile(self.from_request, share)


def measure(target: Target, reviewer: Reviewer, waiters: int) -> Woken:
    """Let `waiters` agents wait for approval and approve all of them, one after another."""
    return asyncio.run(_measure(target, reviewer, waiters))


async def _measure(target: Target, reviewer: Reviewer, waiters: int) -> Woken:
    opening = asyncio.Semaphore(8)
    agents = [_Agent(target, number) for number in range(waiters)]
    await asyncio.gather(*(agent.claim(opening) for agent in agents))
    polls = [asyncio.create_task(agent.wait()) for agent in agents]
    await asyncio.sleep(1.5)
    connection = await Connection.open(target.host, target.port)
    from_request, from_answer = [], []
    for agent, poll in zip(agents, polls, strict=True):
        statement = await reviewer.statement(connection, agent.approval)
        request = reviewer.decision(agent.approval, statement)
        began = time.perf_counter()
        status, answer = await connection.ask(request)
        decided = time.perf_counter()
        if status != 200:
            raise RuntimeError(f"not decided: {status} {answer[:300]!r}")
        woken = await asyncio.wait_for(poll, 35)
        from_request.append((woken - began) * 1000)
        from_answer.append((woken - decided) * 1000)
        await asyncio.sleep(_PAUSE_SECONDS)
    for agent in agents:
        agent.close()
    connection.close()
    return Woken(waiters=waiters, from_request=from_request, from_answer=from_answer)


class _Agent:
    """One agent with a gated call."""

    def __init__(self, target: Target, number: int) -> None:
        self.target = target
        self.number = number
        self.approval = ""
        self._path = ""
        self._poll = b""

    async def claim(self, opening: asyncio.Semaphore) -> None:
        """Claim a call that needs approval."""
        async with opening:
            self._connection = await Connection.open(self.target.host, self.target.port)
            key = self.target.key.encode()
            run = f"wait-{time.time_ns():x}-{self.number}"
            claim = {
                "run": {"id": run, "agent": "bench"}, "step": 0, "tool_call_id": "call",
                "tool": "bench.gated", "args": {"n": self.number}, "fenced": True,
            }  # fmt: skip
            request = post(b"/api/v1/operations", key, json.dumps(claim).encode())
            status, body = await self._connection.ask(request)
        found = json.loads(body)
        if status != 202:
            raise RuntimeError(f"not gated: {status} {body[:300]!r}")
        self.approval = found["approval"]["id"]
        version = found["operation"]["version"]
        self._path = f"/api/v1/operations/{found['idem_key']}?wait=30&since="
        self._poll = get(f"{self._path}{version}".encode(), key)

    async def wait(self) -> float:
        """Long-poll until something has changed; returns when that was heard."""
        while True:
            status, body = await self._connection.ask(self._poll)
            heard = time.perf_counter()
            if status != 200:
                raise RuntimeError(f"poll: {status} {body[:300]!r}")
            found = json.loads(body)
            if found["decision"] != "await_approval":
                return heard
            # Decided, and not in a published checkpoint yet.
            path = f"{self._path}{found['version']}"
            self._poll = get(path.encode(), self.target.key.encode())

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
