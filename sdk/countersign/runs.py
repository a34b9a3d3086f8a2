"""Runs as `with` blocks: each call in it takes its key from the run, the step and the call."""

from collections.abc import Coroutine
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from countersign.calls import CallOptions, Effect, Result, RunInfo
from countersign.reports import run_record
from countersign.tools import Tool, current_run, effect_of

if TYPE_CHECKING:
    from countersign.async_client import AsyncClient
    from countersign.client import Client


class _Run:
    def __init__(self, client: Any, info: RunInfo) -> None:
        self._client = client
        self.info = info
        self._token: Token[Any] | None = None

    @property
    def id(self) -> str:
        return self.info.id

    def _begin(self) -> None:
        self._token = current_run.set(self)

    def _end(self) -> None:
        if self._token is not None:
            current_run.reset(self._token)
            self._token = None

    def _guard(
        self,
        step: int,
        tool_call_id: str,
        tool: str | Tool,
        args: Any,
        effect: Effect | None,
        options: CallOptions,
    ) -> Any:
        name, function, tool_options = effect_of(tool, effect)
        merged = cast("CallOptions", {**tool_options, **options})
        return self._client.guard(self.info, step, tool_call_id, name, args, function, **merged)

    def _finished(self) -> Any:
        return self._client.records([run_record(self.info, "RUN_FINISHED")])

    def _responded(self, step: int, model_output: Any) -> Any:
        record = run_record(self.info, "LLM_RESPONDED", step=step, model_output=model_output)
        return self._client.records([record])


class Run(_Run):
    """`with client.run("run_7") as run: run.call(3, "call_abc", "stripe.charge", args, charge)`.

    A block that ends well reports the run finished; one that is left by an exception (a parked
    approval among them) does not, and the run can be gone on with.
    """

    def __init__(self, client: "Client", info: RunInfo) -> None:
        super().__init__(client, info)

    def call(
        self,
        step: int,
        tool_call_id: str,
        tool: str | Tool,
        args: Any,
        effect: Effect | None = None,
        **options: Unpack[CallOptions],
    ) -> Result:
        """A guarded call (see `Client.guard`) in this run."""
        result: Result = self._guard(step, tool_call_id, tool, args, effect, options)
        return result

    def responded(self, step: int, model_output: Any) -> None:
        """Keeps what the model said at a step, before anything of it is executed."""
        self._responded(step, model_output)

    def finish(self) -> None:
        self._finished()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        if kind is None:
            self.finish()


class AsyncRun(_Run):
    """As `Run`, with `async with` and awaited calls."""

    def __init__(self, client: "AsyncClient", info: RunInfo) -> None:
        super().__init__(client, info)

    def call(
        self,
        step: int,
        tool_call_id: str,
        tool: str | Tool,
        args: Any,
        effect: Effect | None = None,
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, Result]:
        guarded: Coroutine[Any, Any, Result] = self._guard(
            step, tool_call_id, tool, args, effect, options
        )
        return guarded

    async def responded(self, step: int, model_output: Any) -> None:
        await self._responded(step, model_output)

    async def finish(self) -> None:
        await self._finished()

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        if kind is None:
            await self.finish()
