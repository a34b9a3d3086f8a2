"""One set of tests for both clients: threads and asyncio share one protocol."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from countersign import AsyncClient, ClearedCall, Client, Result, backoff

from tests.support.scripted_console import ScriptedConsole

CHARGE = {"customer": "cus_42", "amount": 25000, "currency": "usd"}


class Sdk:
    """Makes one guarded call after another through the client under test."""

    def __init__(self, kind: str, console: ScriptedConsole, spool: Path) -> None:
        self.kind = kind
        self.console = console
        self.spool = spool
        self.executed: list[ClearedCall] = []
        self.settings: dict[str, Any] = {"claim_seconds": 2, "report_seconds": 0}

    def effect(self, value: Any = "done") -> Callable[[ClearedCall], Any]:
        """Notes that it was called; raises `value` where that is an exception."""

        def sync(cleared: ClearedCall) -> Any:
            self.executed.append(cleared)
            if isinstance(value, BaseException):
                raise value
            return value

        async def later(cleared: ClearedCall) -> Any:
            await asyncio.sleep(0)
            return sync(cleared)

        return sync if self.kind == "threads" else later

    def guard(self, effect: Any = None, **options: Any) -> Result:
        call: dict[str, Any] = {
            "run": "run_7",
            "step": 3,
            "tool_call_id": "call_abc",
            "tool": "stripe.charge",
        }
        call |= {"args": CHARGE, "effect": effect or self.effect()} | options
        if self.kind == "threads":
            with self.client() as client:
                return client.guard(**call)
        return asyncio.run(self._guard_later(call))

    def client(self, **settings: Any) -> Client:
        settings = {"agent": "renewals", "spool_dir": self.spool} | self.settings | settings
        return Client("http://console", "key", transport=self.console.transport, **settings)

    async def _guard_later(self, call: dict[str, Any]) -> Result:
        transport = self.console.transport
        async with AsyncClient(
            "http://console",
            "key",
            agent="renewals",
            spool_dir=self.spool,
            transport=transport,
            background_transport=transport,
            **self.settings,
        ) as client:
            return await client.guard(**call)


@pytest.fixture
def console() -> ScriptedConsole:
    return ScriptedConsole()


@pytest.fixture(params=["threads", "asyncio"])
def sdk(request: pytest.FixtureRequest, console: ScriptedConsole, tmp_path: Path) -> Sdk:
    return Sdk(request.param, console, tmp_path / "spool")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come at once: what is tested is that they come."""
    monkeypatch.setattr(backoff, "pause_before", lambda number, retry_after=None: 0.005)
