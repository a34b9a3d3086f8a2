"""The run's row: found or made, locked before its operations, and what the first claim fixed.

Its trigger, its budget and its versions stand as they were first said. The row is locked
FOR NO KEY UPDATE, which is what makes budgets countable: see `operations.rows` for the order.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from operations.actors import Runtime, Scope
from operations.claims import ClaimRequest
from operations.errors import DomainError
from operations.ids import uuid7
from operations.rows import in_scope

VERSIONS: Final = ("agent", "agent_version", "prompt_version", "code_version")
_COLUMNS: Final = (
    "id, run_id, agent, agent_version, prompt_version, code_version, trigger, budget_max_steps, "
    "budget_max_spend_minor, budget_currency, status"
)
_INSERT: Final = """
INSERT INTO operations_run
    (id, environment, namespace, run_id, agent, agent_version, prompt_version, code_version,
     trigger, budget_max_steps, budget_max_spend_minor, budget_currency, status, runtime)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'running', %s)
ON CONFLICT DO NOTHING
"""
_BY_NAME: Final = f"""
SELECT {_COLUMNS} FROM operations_run r
 WHERE {in_scope("r")} AND run_id = %s FOR NO KEY UPDATE
"""  # noqa: S608
_BY_ID: Final = f"SELECT {_COLUMNS} FROM operations_run WHERE id = %s FOR NO KEY UPDATE"  # noqa: S608
_READ: Final = f"SELECT {_COLUMNS} FROM operations_run WHERE id = %s"  # noqa: S608
_OF_TRIGGER: Final = """
SELECT run_id FROM operations_run WHERE environment = %s AND namespace = %s AND trigger = %s
"""


@dataclass(slots=True)
class RunRow:
    """One run under lock. `run_id` is the runtime's own name for it."""

    id: UUID
    run_id: str
    agent: str
    agent_version: str | None
    prompt_version: str | None
    code_version: str | None
    trigger: str | None
    budget_max_steps: int | None
    budget_max_spend_minor: int | None
    budget_currency: str | None
    status: str

    @property
    def has_budget(self) -> bool:
        return self.budget_max_steps is not None or self.budget_max_spend_minor is not None


def home(cur: Any, request: ClaimRequest, runtime: Runtime) -> RunRow | DomainError:
    """The locked run that a claim names, made where there is none.

    DUPLICATE_RUN where its trigger belongs to another run: then no run is made.
    """
    scope = runtime.scope
    run = _locked(cur, _BY_NAME, (*scope, request.run_id))
    if run is not None:
        return run
    cur.execute(
        _INSERT,
        (
            uuid7(), *scope, request.run_id, request.agent, request.agent_version,
            request.prompt_version, request.code_version, request.trigger,
            request.budget_max_steps, request.budget_max_spend_minor,
            currency_of_budget(request), runtime.key_id,
        ),
    )  # fmt: skip
    run = _locked(cur, _BY_NAME, (*scope, request.run_id))
    # Made by us, or by somebody who was quicker; else the trigger stood in the way.
    return run or duplicate_run(cur, scope, request.trigger)


def lock(cur: Any, run_pk: UUID) -> RunRow:
    """The locked run of an operation that exists."""
    run = _locked(cur, _BY_ID, (run_pk,))
    assert run is not None, "an operation has its run"  # noqa: S101 -- a foreign key says so
    return run


def read(cur: Any, run_pk: UUID) -> RunRow:
    """The same without the lock: for what is recorded now and counted when it is claimed."""
    run = _locked(cur, _READ, (run_pk,))
    assert run is not None, "an operation has its run"  # noqa: S101 -- a foreign key says so
    return run


def check_trigger(cur: Any, run: RunRow, request: ClaimRequest, scope: Scope) -> DomainError | None:
    """DUPLICATE_RUN where the claim's trigger belongs to another run."""
    if request.trigger is None or request.trigger == run.trigger:
        return None
    cur.execute(_OF_TRIGGER, (*scope, request.trigger))
    return duplicate_run(cur, scope, request.trigger) if cur.fetchone() else None


def adopt(cur: Any, run: RunRow, request: ClaimRequest) -> None:
    """Take from a claim what nobody has said about its run yet; what was said first stands."""
    said = {
        name: getattr(request, name)
        for name in (*VERSIONS, "trigger")
        if getattr(request, name) and not getattr(run, name)
    }
    if request.has_budget and not run.has_budget:
        said["budget_max_steps"] = request.budget_max_steps
        said["budget_max_spend_minor"] = request.budget_max_spend_minor
        said["budget_currency"] = currency_of_budget(request)
    if not said:
        return
    written = ", ".join(f"{name} = %s" for name in said)
    cur.execute(
        f"UPDATE operations_run SET {written} WHERE id = %s",  # noqa: S608 -- our own names
        (*said.values(), run.id),
    )
    for name, value in said.items():
        setattr(run, name, value)


def changed_versions(run: Any, request: ClaimRequest) -> dict[str, str]:
    """Agent and versions of a claim where they differ from those its run started with."""
    return {
        name: said
        for name in VERSIONS
        if (said := getattr(request, name)) and getattr(run, name) not in (None, "", said)
    }


def duplicate_run(cur: Any, scope: Scope, trigger: str | None) -> DomainError:
    """The refusal that names the run which the trigger belongs to."""
    cur.execute(_OF_TRIGGER, (*scope, trigger))
    row = cur.fetchone()
    owner = row[0] if row else None
    return DomainError(
        "DUPLICATE_RUN",
        f"The trigger was delivered before and belongs to run {owner!r}.",
        run_id=owner,
        pointer="/run/trigger",
    )


def currency_of_budget(request: ClaimRequest) -> str | None:
    """ISO 4217 codes are kept in capitals."""
    return request.budget_currency.upper() if request.budget_currency else None


def _locked(cur: Any, sql: str, params: tuple[Any, ...]) -> RunRow | None:
    cur.execute(sql, params)
    row = cur.fetchone()
    return RunRow(*row) if row else None
