"""The client for threads."""

import inspect
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

import httpx
from countersign import tracing
from countersign.calls import CallOptions, ClearedCall, Effect, Result, RunInfo
from countersign.core import Core
from countersign.errors import PermitLapsed
from countersign.http import SyncConsole
from countersign.resuming import Resumed
from countersign.runs import Run
from countersign.steps import Command, Execute, Pause, Raised, Reply, Returned, Send, Steps


class Client(Core):
    """One for each process, shared by its threads; make it after forking. See `Core` for settings.

    with Client("https://console.example.com", key, agent="renewals") as client:
        client.guard("run_7", 3, "call_abc", "stripe.charge", args, effect=charge)
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        transport: httpx.BaseTransport | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(base_url, api_key, **settings)
        self._http = SyncConsole(self.base_url, api_key, transport)
        self._start(self._http.ask)

    def guard(
        self,
        run: str | RunInfo,
        step: int,
        tool_call_id: str,
        tool: str,
        args: Any,
        effect: Effect | None = None,
        **options: Unpack[CallOptions],
    ) -> Result:
        """Executes `effect` at most once for this call, whatever dies in between.

        `effect(cleared)` is called while its permit to send lasts; it sends `cleared.args` with
        `cleared.idem_key` and returns JSON (or `Done`). A call that happened before is not executed
        again: its recorded result comes back with `.replayed`. Errors: see `countersign.errors`.
        What the effect raises is reported and raised again, unless it only lost an answer on its
        way: then this waits until it is known (`on_unknown="raise"` does not).
        """
        if inspect.iscoroutinefunction(effect):
            raise TypeError("this effect is a coroutine function: use AsyncClient")
        call = self._call(run, step, tool_call_id, tool, args, options)
        with tracing.span_of(call) as span:
            result: Result = self._drive(self._guarding(call, effect))
            span.ended(result)
            return result

    def run(self, run: str | RunInfo, **versions: Any) -> Run:
        """A run to make calls in; `with` reports it finished when the block ends well."""
        return Run(self, self.run_info(run, **versions))

    def resume(self, run: str | RunInfo) -> Resumed:
        """What is done of a run and what the model said, for a process that takes it over."""
        return self._drive(self._resuming(run))

    def unfinished_runs(self, *, agent: str | None = None) -> list[dict[str, Any]]:
        return self._drive(self._unfinished(agent))

    def operation(self, idem_key: str) -> dict[str, Any]:
        return self._drive(self._operation(idem_key))

    def cancel(self, idem_key: str) -> dict[str, Any]:
        """Ends a call that nobody has sent yet."""
        return self._drive(self._verb(idem_key, "cancel"))

    def close_operation(self, idem_key: str) -> dict[str, Any]:
        """The call is no longer wanted: it will be settled, never executed again."""
        return self._drive(self._verb(idem_key, "close"))

    def records(
        self, records: Iterable[Mapping[str, Any]], *, spool: bool = True
    ) -> dict[str, Any]:
        """Reports what already happened (report mode), in batches. Without the spool it raises
        ConsoleUnavailable where it could not tell, for callers who keep the records themselves."""
        return self._drive(self._records(records, spool=spool))

    def close(self) -> None:
        self._background.close()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _drive[T](self, steps: Steps[T]) -> T:
        try:
            command = next(steps)
            while True:
                try:
                    answer = self._perform(command)
                except BaseException as error:  # noqa: BLE001 -- the protocol decides
                    command = steps.throw(error)
                else:
                    command = steps.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def _perform(self, command: Command) -> Reply | Returned | Raised | Any:
        match command:
            case Send():
                return self._http.ask(command)
            case Pause(seconds):
                time.sleep(max(0.0, seconds))
                return None
            case Execute(effect, cleared):
                return _execute(effect, cleared)
        return command.do()


def _execute(effect: Effect, cleared: ClearedCall) -> Returned | Raised:
    try:
        cleared.ensure_permit()
    except PermitLapsed as lapsed:
        return Raised(lapsed, sent=False)
    try:
        value = effect(cleared)
    except BaseException as error:  # noqa: BLE001 -- reported, then raised again
        return Raised(error)
    if inspect.iscoroutine(value):
        # Made, and never begun: taking it for a result would report what did not happen.
        value.close()
        return Raised(TypeError("this effect is a coroutine: use AsyncClient"), sent=False)
    return Returned(value)
