"""One read at a time through the gate, by the official client, and what each failure means."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any, TypeVar
from uuid import uuid4

from google.protobuf import json_format
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import HistoryEventFilterType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, TLSConfig

from reconcilers.providers.base import AccountAccess, Gate, ProviderError
from reconcilers.providers.temporal import refusals
from reconcilers.providers.temporal.provider import encrypts

#: A history ends at 51,200 events; so many pages of it are read, and no more.
MOST_PAGES = 60
_PAGE_SIZE = 1000

_Answer = TypeVar("_Answer")


class Missing(Exception):
    """NOT_FOUND: the namespace holds no such workflow, or no longer."""


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """What reads rest on. `retention` is None where it may not be asked.

    `is_replicated`: several clusters hold it, and one that has just taken over may lack the last
    starts of the other.
    """

    id: str
    retention: timedelta | None
    is_replicated: bool

    def forgets_before(self, now: datetime) -> datetime | None:
        """Workflows that closed since then are still there; None where nobody knows."""
        return None if self.retention is None else now - self.retention


class Frontend:
    """Reads one namespace. Raises ProviderError for everything that is no answer, or Missing."""

    def __init__(self, access: AccountAccess, gate: Gate) -> None:
        self.gate = gate
        self.namespace = str(access.config["namespace"])
        self._access = access
        self._timeout = timedelta(seconds=int(access.config.get("timeout_seconds") or 15))
        self._client: Client | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Frontend({self.namespace})"

    async def describe_namespace(self) -> Namespace:
        """The namespace's id, retention and clusters."""
        answer = await self._call(
            "namespace",
            lambda client: client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self.namespace),
                retry=False,
                timeout=self._timeout,
            ),
        )
        ttl = answer.config.workflow_execution_retention_ttl
        return Namespace(
            id=answer.namespace_info.id,
            retention=timedelta(seconds=ttl.seconds) if ttl.seconds > 0 else None,
            is_replicated=len(answer.replication_config.clusters) > 1,
        )

    async def describe(
        self, workflow_id: str, run_id: str = ""
    ) -> tuple[WorkflowExecutionInfo, bytes]:
        """One run, the newest where none is named, and what was told of it, as JSON."""
        answer = await self._call(
            "describe",
            lambda client: client.workflow_service.describe_workflow_execution(
                DescribeWorkflowExecutionRequest(
                    namespace=self.namespace,
                    execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
                ),
                retry=False,
                timeout=self._timeout,
            ),
        )
        info = answer.workflow_execution_info
        seen = info.execution
        if seen.workflow_id != workflow_id or (run_id and seen.run_id != run_id):
            raise ProviderError(f"asked for workflow {workflow_id}, another one answered")
        raw = json_format.MessageToJson(info).encode()
        if not info.first_run_id:
            # Older frontends tell it in the history alone.
            info.first_run_id = await self._first_run_of(workflow_id, seen.run_id)
        return info, raw

    async def _first_run_of(self, workflow_id: str, run_id: str) -> str:
        answer = await self._call(
            "history",
            lambda client: client.workflow_service.get_workflow_execution_history(
                GetWorkflowExecutionHistoryRequest(
                    namespace=self.namespace,
                    execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
                    maximum_page_size=1,
                ),
                retry=False,
                timeout=self._timeout,
            ),
        )
        for event in answer.history.events:
            first = event.workflow_execution_started_event_attributes.first_execution_run_id
            if first:
                return first
        raise ProviderError(f"the frontend does not say how the chain of {workflow_id} began")

    async def successor(self, workflow_id: str, run_id: str) -> str:
        """The run that goes on where this closed one ended; empty where none does."""
        answer = await self._call(
            "history",
            lambda client: client.workflow_service.get_workflow_execution_history(
                GetWorkflowExecutionHistoryRequest(
                    namespace=self.namespace,
                    execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
                    history_event_filter_type=HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
                ),
                retry=False,
                timeout=self._timeout,
            ),
        )
        return successor_of(answer.history.events)

    async def history(self, workflow_id: str, run_id: str) -> tuple[list[HistoryEvent], int, str]:
        """Every event of one run, oldest first, the number of pages, and their SHA-256."""
        request = GetWorkflowExecutionHistoryRequest(
            namespace=self.namespace,
            execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            maximum_page_size=_PAGE_SIZE,
        )
        events: list[HistoryEvent] = []
        digest = sha256()
        for page in range(1, MOST_PAGES + 1):
            answer = await self._call(
                "history",
                lambda client: client.workflow_service.get_workflow_execution_history(
                    request, retry=False, timeout=self._timeout
                ),
            )
            events.extend(answer.history.events)
            digest.update(answer.SerializeToString())
            if not answer.next_page_token:
                return events, page, digest.hexdigest()
            request.next_page_token = answer.next_page_token
        raise ProviderError(f"the history of {workflow_id} is longer than {MOST_PAGES} pages")

    async def visible(self, workflow_id: str) -> tuple[list[WorkflowExecutionInfo], list[bytes]]:
        """Every run of this workflow id that the visibility index shows by now."""
        quoted = workflow_id.replace("\\", "\\\\").replace("'", "\\'")
        request = ListWorkflowExecutionsRequest(
            namespace=self.namespace, page_size=_PAGE_SIZE, query=f"WorkflowId = '{quoted}'"
        )
        found: list[WorkflowExecutionInfo] = []
        pages: list[bytes] = []
        while len(pages) < MOST_PAGES:
            answer = await self._call(
                "list",
                lambda client: client.workflow_service.list_workflow_executions(
                    request, retry=False, timeout=self._timeout
                ),
            )
            found.extend(e for e in answer.executions if e.execution.workflow_id == workflow_id)
            pages.append(json_format.MessageToJson(answer).encode())
            if not answer.next_page_token:
                return found, pages
            request.next_page_token = answer.next_page_token
        raise ProviderError(f"{workflow_id} has more runs than fit {MOST_PAGES} pages")

    def close(self) -> None:
        """Let the connection go; the client closes it when nobody holds it."""
        self._client = None

    async def _call(self, endpoint: str, ask: Callable[[Client], Awaitable[_Answer]]) -> _Answer:
        await self.gate.turn(endpoint)
        try:
            answer = await ask(await self._opened())
        except RPCError as problem:
            error = refusals.of_answer(problem, endpoint, self.namespace)
            if error is None:
                await self.gate.answered(endpoint)
                raise Missing from None
            await self.gate.failed(endpoint, error)
            raise error from None
        except ProviderError as error:
            await self.gate.failed(endpoint, error)
            raise
        await self.gate.answered(endpoint)
        return answer

    async def _opened(self) -> Client:
        # Made at the first request: it belongs to the event loop that runs then.
        async with self._opening:
            if self._client is None:
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Client:
        config, secrets = self._access.config, self._access.secrets
        tls: TLSConfig | bool = False
        if encrypts({**config, **secrets}):
            tls = TLSConfig(
                server_root_ca_cert=_pem(config.get("server_ca")),
                domain=config.get("server_name") or None,
                client_cert=_pem(secrets.get("client_cert")),
                client_private_key=_pem(secrets.get("client_key")),
            )
        try:
            return await asyncio.wait_for(
                Client.connect(
                    str(config["target"]),
                    namespace=self.namespace,
                    api_key=secrets.get("api_key") or None,
                    tls=tls,
                    identity=f"countersign-reconciler-{uuid4().hex[:8]}",
                    runtime=_quiet_runtime(),
                ),
                self._timeout.total_seconds(),
            )
        except TimeoutError:
            raise ProviderError(
                f"no connection within {self._timeout.total_seconds():g} s"
            ) from None
        except (RuntimeError, ValueError) as problem:
            # The client raises RuntimeError for whatever keeps it from connecting.
            raise refusals.of_connection(str(problem), self.namespace) from None


def successor_of(events: Sequence[HistoryEvent]) -> str:
    """The run id that the last event hands over to; empty where it hands over to none."""
    if not events:
        return ""
    attributes = getattr(events[-1], events[-1].WhichOneof("attributes") or "", None)
    return str(getattr(attributes, "new_execution_run_id", ""))


def _pem(text: Any) -> bytes | None:
    return str(text).encode() if text else None


@cache
def _quiet_runtime() -> Runtime:
    # The client's core writes to the terminal on its own where nobody tells it not to.
    return Runtime(telemetry=TelemetryConfig(logging=None), worker_heartbeat_interval=None)
