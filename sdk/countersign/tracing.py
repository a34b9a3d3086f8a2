"""A span around each guarded call, where OpenTelemetry is importable; nothing where it is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from countersign.calls import Call, Result
from countersign.errors import OperationFailed, OutcomeUnknown, Waiting

try:
    from opentelemetry import trace
except ImportError:
    trace = None  # type: ignore[assignment]


class Span:
    """The attributes that the console reads from traces, too."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def ended(self, result: Result) -> None:
        self._set("countersign.execution", result.execution)
        self._set("countersign.operation.state", "COMMITTED" if result.reported else "INVOKED")
        if result.attempt_number is not None:
            self._set("countersign.attempt.number", result.attempt_number)

    def failed(self, error: BaseException) -> None:
        if isinstance(error, OutcomeUnknown):
            self._set("countersign.operation.state", "UNKNOWN")
        elif isinstance(error, OperationFailed):
            self._set("countersign.operation.state", "FAILED")
        elif isinstance(error, Waiting):
            self._set("countersign.operation.state", "PENDING")

    def _set(self, name: str, value: Any) -> None:
        if self._span is not None:
            self._span.set_attribute(name, value)


@contextmanager
def span_of(call: Call) -> Iterator[Span]:
    """`execute_tool <tool>`, by the GenAI conventions, with the call's key from the start."""
    if trace is None:
        yield Span(None)
        return
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.tool_call_id,
        "gen_ai.conversation.id": call.run.id,
        "gen_ai.agent.name": call.run.agent,
        "countersign.idempotency_key": call.idem_key,
        "countersign.step": call.step,
        "countersign.args_fingerprint": call.args_fingerprint,
    }
    tracer = trace.get_tracer("countersign")
    with tracer.start_as_current_span(f"execute_tool {call.tool}", attributes=attributes) as span:
        ours = Span(span)
        try:
            yield ours
        except BaseException as error:
            ours.failed(error)
            raise
