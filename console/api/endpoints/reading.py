"""Reading and waiting: operations, runs, tools."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from console.api import problems, shapes
from console.api.fields import INTEGER_MAX
from console.api.requests import Answer, Request, seconds, whole_number
from console.api.waiting import LONGEST_SECONDS
from operations import reading, runs_reading, states, tools_reading
from operations.ids import parse_handle
from operations.reading import OperationQuery
from operations.runs_reading import RunQuery

PAGE: Final = 50
LARGEST_PAGE: Final = 200


async def read_operation(request: Request) -> Answer:
    """`GET /api/v1/operations/{idem_key}`: at once, or when its version differs from `since`."""
    wait, since = waiting_of(request)
    scope = request.runtime.scope
    key = request.params["idem_key"]
    if not shapes.is_idem_key(key):
        raise problems.not_found()
    process = request.process
    document = await process.workers.run(reading.read_operation, scope, key)
    if wait and document["version"] == since:
        await process.waiting.wait(operation_id(document), since, wait)
        document = await process.side.run(reading.read_operation, scope, key)
    return Answer(200, document)


def list_operations(request: Request) -> Answer:
    """`GET /api/v1/operations`: keyset pages, newest first."""
    query = request.query("state", "tool", "run", "cursor", "limit")
    state = query.get("state")
    if state is not None and state not in states.STATES:
        raise problems.invalid(f"A state is one of {', '.join(states.STATES)}.", "?state")
    wanted = OperationQuery(
        scope=request.runtime.scope, state=state, tool=query.get("tool"), run=query.get("run")
    )
    return page(reading.list_operations(wanted, query.get("cursor"), page_size(query)))


def list_runs(request: Request) -> Answer:
    """`GET /api/v1/runs`."""
    query = request.query("status", "agent", "cursor", "limit")
    wanted = RunQuery(
        scope=request.runtime.scope, status=query.get("status"), agent=query.get("agent")
    )
    return page(runs_reading.list_runs(wanted, query.get("cursor"), page_size(query)))


def read_run(request: Request) -> Answer:
    """`GET /api/v1/runs/{run_id}`: what a restarted agent needs."""
    request.query()
    return Answer(200, runs_reading.run_document(request.runtime.scope, request.params["run_id"]))


def list_tools(request: Request) -> Answer:
    """`GET /api/v1/tools`."""
    request.query()
    return page((tools_reading.list_tools(request.runtime.scope), None))


def waiting_of(request: Request) -> tuple[float, int]:
    """How long the request waits, and for another version than which; (0, 0) for not at all."""
    query = request.query("wait", "since")
    wait = seconds(query, "wait", most=LONGEST_SECONDS)
    since = whole_number(query, "since", low=0, high=INTEGER_MAX)
    return (0.0, 0) if since is None else (wait, since)


def page_size(query: Mapping[str, str]) -> int:
    """The `limit` parameter."""
    return whole_number(query, "limit", low=1, high=LARGEST_PAGE) or PAGE


def page(found: tuple[list[dict[str, Any]], str | None]) -> Answer:
    """One page of a list."""
    items, next_cursor = found
    return Answer(200, {"items": items, "next_cursor": next_cursor})


def operation_id(document: Mapping[str, Any]) -> UUID:
    """The row's id behind an operation document."""
    found = parse_handle("op", document["id"])
    if found is None:
        raise AssertionError("an operation document always names its operation")
    return found
