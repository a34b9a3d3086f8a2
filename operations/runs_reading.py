"""Reading runs: lists by keyset, and what a restarted agent needs to go on where it was."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from operations import paging, rows, states
from operations.actors import Scope
from operations.documents import rfc3339
from operations.errors import DomainError
from operations.ids import handle
from operations.models.runs import RUN_STATUSES
from operations.paging import Branch
from operations.reading import documents_of

UNFINISHED: Final = "unfinished"
WAITING: Final = "waiting"
RUNNING: Final = "running"
STATUSES: Final = (UNFINISHED, WAITING, *RUN_STATUSES)
#: What is stored of a run that is said to be these.
_STORED: Final = {UNFINISHED: RUNNING, WAITING: RUNNING}

#: An operation of the run waits for a person, an approval or a look: not for the agent itself.
#: Read from the operations themselves: those of one run lie side by side, so one look at them
#: costs less than a look at the standing of each.
_WAITS: Final = """EXISTS (
    SELECT FROM operations_operation o
    WHERE o.run_id = {run}.id AND o.waiting_on IN ('approval', 'sealing', 'look', 'person'))"""
#: Each row of this window costs a look at its run's operations.
_WAITS_WINDOW: Final = 200
_IN_SCOPE: Final = "environment = %s AND namespace = %s"
_SELECT: Final = f"""
SELECT r.id, r.run_id, r.environment, r.namespace, r.agent, r.agent_version, r.prompt_version,
       r.code_version, r.trigger, r.budget_max_steps, r.budget_max_spend_minor, r.budget_currency,
       r.created_at, r.finished_at, r.status, r.status = 'running' AND {_WAITS.format(run="r")}
FROM operations_run r WHERE """  # noqa: S608


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs. `unfinished` is running or waiting; no status means every one."""

    scope: Scope | None = None
    status: str | None = None
    agent: str | None = None


def list_runs(
    query: RunQuery, cursor: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """`(runs newest first, next cursor or None)`; pages as `reading.list_operations` has them."""
    before = paging.read_cursor(cursor)
    with rows.hot_cursor() as cur:
        page = paging.page(cur, _branches(cur, query), before, limit)
        cur.execute(_SELECT + "r.id = ANY(%s::uuid[]) ORDER BY r.id DESC", [page.ids])
        items = [_run(row) for row in cur.fetchall()]
    return items, paging.write_cursor(page.last)


def run_document(scope: Scope, run_id: str) -> dict[str, Any]:
    """The resume view of one run: its steps, what the model said, and every operation."""
    with rows.hot_cursor() as cur:
        where = "r.environment = %s AND r.namespace = %s AND r.run_id = %s"
        cur.execute(_SELECT + where, [*scope, run_id])
        row = cur.fetchone()
        if row is None:
            raise DomainError("NOT_FOUND", "There is no such run for this key.")
        steps = _steps(cur, row[0])
    found = _run(row)
    return {
        "run": found["run"],
        "run_id": found["run_id"],
        "status": found["status"],
        "resume_from_step": resume_from_step(steps),
        "created_at": found["created_at"],
        "finished_at": found["finished_at"],
        "url": found["url"],
        "steps": steps,
    }


def resume_from_step(steps: Sequence[Mapping[str, Any]]) -> int:
    """The first step that is not done; 0 for a run of which nothing is known.

    Done: reported so, or everything it called is COMMITTED. A step with a FAILED call is done
    only if the run went on after it: otherwise that is where the run stopped.
    """
    for index, step in enumerate(steps):
        found = {operation["state"] for operation in step["operations"]}
        is_last = index == len(steps) - 1
        all_committed = bool(found) and found <= {states.COMMITTED}
        went_on = bool(found) and found <= states.TERMINAL and not is_last
        if not (step["completed"] or all_committed or went_on):
            return int(step["step"])
    return int(steps[-1]["step"]) + 1 if steps else 0


def _branches(cur: Any, query: RunQuery) -> list[Branch]:
    if query.status is not None and query.status not in STATUSES:
        detail = f"A run's status is one of {', '.join(STATUSES)}."
        raise DomainError("VALIDATION_ERROR", detail, pointer="?status")
    stored = RUN_STATUSES if query.status is None else (_STORED.get(query.status, query.status),)
    return [
        _branch(query, scope, status)
        for scope in paging.scopes_of(cur, query.scope)
        for status in stored
    ]


def _branch(query: RunQuery, scope: Scope, stored: str) -> Branch:
    params: tuple[str, ...] = (*scope, stored)
    condition = f"{_IN_SCOPE} AND status = %s"
    if query.agent is not None:
        condition, params = f"{condition} AND agent = %s", (*params, query.agent)
    if query.status not in (WAITING, RUNNING):
        return Branch("operations_run", condition, params)
    waits = ("" if query.status == WAITING else "NOT ") + _WAITS.format(run="seen")
    return Branch("operations_run", condition, params, ((waits, ()),), window=_WAITS_WINDOW)


def _run(row: Sequence[Any]) -> dict[str, Any]:
    pk, run_id, environment, namespace, agent, *versions = row[:8]
    agent_version, prompt_version, code_version = versions
    trigger, max_steps, max_spend, currency, created_at, finished_at, status, waits = row[8:]
    budget = {"max_steps": max_steps, "max_spend_minor": max_spend, "currency": currency}
    run_handle = handle("run", pk)
    return {
        "run": {
            "id": run_id,
            "agent": agent,
            "agent_version": agent_version,
            "prompt_version": prompt_version,
            "code_version": code_version,
            "trigger": trigger,
            "budget": budget if any(value is not None for value in budget.values()) else None,
        },
        "run_id": run_id,
        "id": run_handle,
        "environment": environment,
        "namespace": namespace,
        "agent": agent,
        "status": WAITING if waits else status,
        "created_at": rfc3339(created_at),
        "finished_at": rfc3339(finished_at),
        "url": f"{settings.BASE_URL}/runs/{run_handle}/",
    }


def _steps(cur: Any, run: UUID) -> list[dict[str, Any]]:
    cur.execute("SELECT id FROM operations_operation WHERE run_id = %s", [run])
    by_step: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for document in reversed(documents_of(cur, [row[0] for row in cur.fetchall()])):
        by_step[document["step"]].append(document)
    cur.execute(
        "SELECT step, model_output, completed_at IS NOT NULL FROM operations_step"
        " WHERE run_id = %s",
        [run],
    )
    told = {step: (output, completed) for step, output, completed in cur.fetchall()}
    return [
        _step(number, *told.get(number, (None, False)), by_step.get(number, []))
        for number in sorted(told.keys() | by_step.keys())
    ]


def _step(
    number: int,
    model_output: bytes | None,
    completed: bool,
    operations: list[dict[str, Any]],
) -> dict[str, Any]:
    replayed = any(operation["replays"] for operation in operations)
    return {
        "step": number,
        "execution": "replayed" if replayed else "fresh",
        "model_output": json.loads(bytes(model_output)) if model_output is not None else None,
        "completed": completed,
        "operations": operations,
    }
