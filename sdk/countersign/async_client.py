"""The client for asyncio."""

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

import httpx
from countersign import tracing
from countersign.calls import CallOptions, ClearedCall, Effect, Result, RunInfo
from countersign.core import Core
from countersign.errors import PermitLapsed
from countersign.http import AsyncConsole, SyncConsole
from countersign.resuming import Resumed
from countersign.runs import AsyncRun
from countersign.steps import Command, Execute, Pause, Raised, Reply, Returned, Send, Steps


class AsyncClient(Core):
    """As `Client`, for one event loop. Effects may be coroutine functions; plain functions run in a
    thread. Heartbeats and the relay of spooled reports are threads here, too, so that a loop that
    is kept busy loses no lease."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        background_transport: httpx.BaseTransport | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(base_url, api_key, **settings)
        self._http = AsyncConsole(self.base_url, api_key, transport)
        self._background_http = SyncConsole(self.base_url, api_key, background_transport)
        self._start(self._background_http.ask)

    async def guard(
        self,
        run: str | RunInfo,
        step: int,
        tool_call_id: str,
        tool: str,
        args: Any,
        effect: Effect | None = None,
        **options: Unpack[CallOptions],
    ) -> Result:
        """As `Client.guard`. A task that is cancelled reports what it knows and stays cancelled."""
        call = self._call(run, step, tool_call_id, tool, args, options)
        with tracing.span_of(call) as span:
            result: Result = await self._drive(self._guarding(call, effect))
            span.ended(result)
            return result

    def run(self, run: str | RunInfo, **versions: Any) -> AsyncRun:
        return AsyncRun(self, self.run_info(run, **versions))

    async def resume(self, run: str | RunInfo) -> Resumed:
        return await self._drive(self._resuming(run))

    async def unfinished_runs(self, *, agent: str | None = None) -> list[dict[str, Any]]:
        return await self._drive(self._unfinished(agent))

    async def operation(self, idem_key: str) -> dict[str, Any]:
        return await self._drive(self._operation(idem_key))

    async def cancel(self, idem_key: str) -> dict[str, Any]:
        return await self._drive(self._verb(idem_key, "cancel"))

    async def close_operation(self, idem_key: str) -> dict[str, Any]:
        return await self._drive(self._verb(idem_key, "close"))

    async def records(
        self, records: Iterable[Mapping[str, Any]], *, spool: bool = True
    ) -> dict[str, Any]:
        return await self._drive(self._records(records, spool=spool))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._background.close)
        self._background_http.close()
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _drive[T](self, steps: Steps[T]) -> T:
        try:
            command = next(steps)
            while True:
                try:
                    answer = await self._perform(command)
                except BaseException as error:  # noqa: BLE001 -- the protocol decides
                    command = steps.throw(error)
                else:
                    command = steps.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def _perform(self, command: Command) -> Reply | Returned | Raised | Any:
        match command:
            case Send():
                return await self._http.ask(command)
            case Pause(seconds):
                await asyncio.sleep(max(0.0, seconds))
                return None
            case Execute(effect, cleared):
                return await _execute(effect, cleared)
        return await asyncio.to_thread(command.do)


async def _execute(effect: Effect, cleared: ClearedCall) -> Returned | Raised:
    if not inspect.iscoroutinefunction(effect):
        # The thread looks at the permit itself: it may have waited for its turn.
        return await _in_thread(effect, cleared)
    try:
        cleared.ensure_permit()
    except PermitLapsed as lapsed:
        return Raised(lapsed, sent=False)
    try:
        return Returned(await effect(cleared))
    except BaseException as error:  # noqa: BLE001 -- reported, then raised again
        return Raised(error)


async def _in_thread(effect: Effect, cleared: ClearedCall) -> Returned | Raised:
    def work() -> Returned | Raised:
        try:
            cleared.ensure_permit()
        except PermitLapsed as lapsed:
            return Raised(lapsed, sent=False)
        try:
            return Returned(effect(cleared))
        except BaseException as error:  # noqa: BLE001 -- reported, then raised again
            return Raised(error)

    try:
        done = await asyncio.to_thread(work)
        if isinstance(done, Returned) and inspect.isawaitable(done.value):
            return Returned(await done.value)
        return done
    except BaseException as error:  # noqa: BLE001 -- reported, then raised again
        return Raised(error)
