"""An effect with a name: what `@client.tool("stripe.charge")` makes of a function."""

from contextvars import ContextVar
from typing import Any, Unpack

from countersign.calls import CallOptions, Effect

#: The run whose `with` block we are in.
current_run: ContextVar[Any] = ContextVar("countersign_run")


class Tool:
    """The function still is what it was (`tool.function`); `run.call(tool, …)` guards it."""

    def __init__(self, name: str, function: Effect, options: CallOptions) -> None:
        self.name = name
        self.function = function
        self.options = options
        self.__doc__ = function.__doc__

    def __call__(
        self, args: Any, *, step: int, tool_call_id: str, **options: Unpack[CallOptions]
    ) -> Any:
        """Guards a call in the run whose `with` block this is in."""
        run = current_run.get(None)
        if run is None:
            raise RuntimeError(
                f"{self.name} was called outside a run: use it inside `with client.run(…)`, where "
                "its idempotency key comes from"
            )
        return run.call(step, tool_call_id, self, args, **options)


def effect_of(tool: "str | Tool", effect: Effect | None) -> tuple[str, Effect | None, CallOptions]:
    """Name, effect and options of a tool that is given by name or as a `Tool`."""
    if isinstance(tool, Tool):
        return tool.name, effect or tool.function, tool.options
    return tool, effect, CallOptions()
