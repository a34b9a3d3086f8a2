"""A Temporal frontend made of the client's own protobufs: real gRPC, its own book of workflows.

It keeps what a namespace keeps: runs with their histories, and the visibility index, which may
lag. `forget` is what retention does to closed runs. Faults are gRPC codes, by method.
"""

import itertools
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from temporalio.api.common.v1 import GrpcStatus, Payload
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure, NotFoundFailure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import request_response_pb2 as messages
from temporalio.api.workflowservice.v1.service_pb2_grpc import (
    WorkflowServiceServicer,
    add_WorkflowServiceServicer_to_server,
)

CODES = {"running": 1, "completed": 2, "failed": 3, "canceled": 4, "terminated": 5}
CODES |= {"continued_as_new": 6, "timed_out": 7, "paused": 8}


@dataclass
class Run:
    """One run and its history. Changing `status` closes it."""

    workflow_id: str
    first_run_id: str
    memo: dict[str, str] = field(default_factory=dict)
    status: str = "running"
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: float = field(default_factory=time.time)
    visible_at: float = 0.0
    events: list[HistoryEvent] = field(default_factory=list)
    type_name: str = "Charge"

    def __post_init__(self) -> None:
        self.first_run_id = self.first_run_id or self.run_id
        started = self.add("workflow_execution_started_event_attributes")
        started.first_execution_run_id = self.first_run_id

    def add(self, attributes: str, **members: Any) -> Any:
        """Append an event; its attributes."""
        event = HistoryEvent(event_id=len(self.events) + 1)
        event.event_time.FromNanoseconds(int(self.started * 1e9) + len(self.events))
        made = getattr(event, attributes)
        made.SetInParent()
        for name, value in members.items():
            setattr(made, name, value)
        self.events.append(event)
        return made

    def schedule(self, activity_id: str, *, header: dict[str, str] | None = None) -> int:
        """Schedule an activity; the id of the event."""
        scheduled = self.add("activity_task_scheduled_event_attributes", activity_id=activity_id)
        scheduled.activity_type.name = "charge_card"
        for name, value in (header or {}).items():
            scheduled.header.fields[name].CopyFrom(payload(value))
        return len(self.events)

    def close(self, status: str, *, new_run: "Run | None" = None) -> None:
        """End it, handing over to `new_run` where there is one."""
        self.status = status
        ended = self.add(f"workflow_execution_{status}_event_attributes")
        if new_run is not None:
            ended.new_execution_run_id = new_run.run_id

    def info(self) -> WorkflowExecutionInfo:
        info = WorkflowExecutionInfo(
            first_run_id=self.first_run_id, status=WorkflowExecutionStatus.ValueType(self.code)
        )
        info.execution.workflow_id, info.execution.run_id = self.workflow_id, self.run_id
        info.type.name = self.type_name
        info.start_time.FromNanoseconds(int(self.started * 1e9))
        for name, value in self.memo.items():
            info.memo.fields[name].CopyFrom(payload(value))
        return info

    @property
    def code(self) -> int:
        return CODES[self.status]


def payload(value: str, *, encoding: bytes = b"json/plain") -> Payload:
    return Payload(metadata={"encoding": encoding}, data=json.dumps(value).encode())


class _Garbage(grpc.ServerInterceptor):  # type: ignore[misc]
    """Puts bytes that are no message in the place of answers, while it is told to."""

    def __init__(self, server: "TemporalServer") -> None:
        self._server = server

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = continuation(details)
        if not self._server.answers_garbage:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: b"",
            request_deserializer=handler.request_deserializer,
            response_serializer=lambda _: b"\xff\xff\xff\xffno message",
        )


# The stubs make every one of its methods abstract; here only what is read is served.
_Servicer: Any = WorkflowServiceServicer


class TemporalServer(_Servicer):  # type: ignore[misc]
    """Serves one namespace on a free port of this machine."""

    def __init__(
        self,
        *,
        namespace: str = "orders",
        api_key: str = "key-of-the-reconciler",
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.namespace, self.api_key = namespace, api_key
        self.namespace_id = str(uuid.uuid4())
        self.retention_days = 30.0
        self.clusters = ["active"]
        self.page_size = 1000
        self.runs: list[Run] = []
        self.faults: dict[str, grpc.StatusCode] = {}
        self.hang_seconds = 0.0
        self.answers_garbage = False
        self.tells_chains = True
        self.calls: list[str] = []
        self._server = grpc.server(ThreadPoolExecutor(16), interceptors=[_Garbage(self)])
        add_WorkflowServiceServicer_to_server(self, self._server)
        self.port = (
            self._server.add_insecure_port("127.0.0.1:0")
            if credentials is None
            else self._server.add_secure_port("127.0.0.1:0", credentials)
        )

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start_serving(self) -> "TemporalServer":
        self._server.start()
        return self

    def stop(self) -> None:
        self._server.stop(None).wait()

    # The book ---------------------------------------------------------------------------------

    def start(self, workflow_id: str, *, chain: Run | None = None, **changes: Any) -> Run:
        """Start a run: of its own, or as the next one of a chain."""
        run = Run(workflow_id, chain.first_run_id if chain else "", **changes)
        self.runs.append(run)
        return run

    def forget(self, *runs: Run) -> None:
        self.runs = [run for run in self.runs if run not in runs]

    # gRPC -------------------------------------------------------------------------------------

    def GetSystemInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._enter("GetSystemInfo", context)
        return messages.GetSystemInfoResponse(server_version="1.29.0")

    def DescribeNamespace(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._enter("DescribeNamespace", context, request.namespace)
        answer = messages.DescribeNamespaceResponse()
        answer.namespace_info.id, answer.namespace_info.name = self.namespace_id, self.namespace
        ttl = int(self.retention_days * 86400)
        answer.config.workflow_execution_retention_ttl.seconds = ttl
        for name in self.clusters:
            answer.replication_config.clusters.add(cluster_name=name)
        return answer

    def DescribeWorkflowExecution(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._enter("DescribeWorkflowExecution", context, request.namespace)
        run = self._find(request.execution, context)
        answer = messages.DescribeWorkflowExecutionResponse(workflow_execution_info=run.info())
        if not self.tells_chains:
            answer.workflow_execution_info.first_run_id = ""
        return answer

    def GetWorkflowExecutionHistory(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._enter("GetWorkflowExecutionHistory", context, request.namespace)
        run = self._find(request.execution, context)
        answer = messages.GetWorkflowExecutionHistoryResponse()
        if request.history_event_filter_type == 2:
            answer.history.events.extend(run.events[-1:])
            return answer
        begin = int(request.next_page_token or b"0")
        size = min(request.maximum_page_size or 1000, self.page_size)
        answer.history.events.extend(run.events[begin : begin + size])
        if begin + size < len(run.events):
            answer.next_page_token = str(begin + size).encode()
        return answer

    def ListWorkflowExecutions(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._enter("ListWorkflowExecutions", context, request.namespace)
        wanted = request.query.removeprefix("WorkflowId = '").removesuffix("'")
        wanted = wanted.replace("\\'", "'").replace("\\\\", "\\")
        shown = [r for r in self.runs if r.workflow_id == wanted and r.visible_at <= time.time()]
        begin = int(request.next_page_token or b"0")
        answer = messages.ListWorkflowExecutionsResponse()
        for run in itertools.islice(shown, begin, begin + self.page_size):
            answer.executions.append(run.info())
            # Visibility tells of each run by itself.
            answer.executions[-1].first_run_id = ""
        if begin + self.page_size < len(shown):
            answer.next_page_token = str(begin + self.page_size).encode()
        return answer

    def _enter(self, method: str, context: Any, namespace: str | None = None) -> None:
        self.calls.append(method)
        wakes_at = time.monotonic() + self.hang_seconds
        while time.monotonic() < wakes_at and context.is_active():
            time.sleep(0.02)
        fault = self.faults.get(method, self.faults.get("*"))
        if fault is not None:
            context.abort(fault, "a fault of the test, which no page may show")
        sent = dict(context.invocation_metadata()).get("authorization", "")
        if self.api_key and sent != f"Bearer {self.api_key}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"bad key {sent}")
        if namespace is not None and namespace != self.namespace:
            self._not_found(context, NamespaceNotFoundFailure(namespace=namespace))

    def _find(self, execution: Any, context: Any) -> Run:
        for run in reversed(self.runs):
            if run.workflow_id == execution.workflow_id and execution.run_id in {"", run.run_id}:
                return run
        self._not_found(context, NotFoundFailure())
        raise AssertionError("abort has raised")

    @staticmethod
    def _not_found(context: Any, detail: Any) -> None:
        packed = AnyMessage()
        packed.Pack(detail)
        status = GrpcStatus(code=5, message="not found", details=[packed])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.NOT_FOUND, "not found")
