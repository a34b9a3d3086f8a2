"""Whether one more attempt is within bounds: of the operation, of its goal, of its run.

Budgets are counted under the lock of the run's row, each operation once. A claim beyond a bound
is refused for good, and is an incident.
"""

from typing import Any, Final

from operations import endings, incidents
from operations.attempts import Tries
from operations.catalogue import ToolFacts
from operations.errors import DomainError
from operations.rows import LockedOperation
from operations.runs import RunRow

_FAILED_FOR_GOAL: Final = """
SELECT count(*) FROM operations_operation
 WHERE run_id = %s AND goal = %s AND tool = %s AND state = 'FAILED' AND id <> %s
"""
#: An operation that the budget itself refused has used no step.
_USED: Final = """
SELECT count(DISTINCT step) FILTER (
           WHERE step <> %s AND (failure IS DISTINCT FROM 'budget_exceeded' OR attempts > 0)),
       coalesce(sum(amount_minor) FILTER (
           WHERE state IN ('INVOKED', 'UNKNOWN', 'COMMITTED')), 0)
  FROM operations_operation WHERE run_id = %s AND id <> %s
"""


def check_attempts(
    cur: Any, op: LockedOperation, tries: Tries, facts: ToolFacts, *, actor: str
) -> DomainError | None:
    """ATTEMPTS_EXHAUSTED where every granted attempt of the cap is used, or one failed for good."""
    if tries.permanent > facts.attempts_permanent:
        reason = "An attempt has failed for good."
    elif op.attempts >= facts.attempts_transient:
        reason = f"All {facts.attempts_transient} attempts are used."
    else:
        return None
    details = {"attempts": op.attempts, "permanent": tries.permanent}
    return _refuse(cur, op, "attempts_exhausted", "ATTEMPTS_EXHAUSTED", reason, actor, details)


def check_goal(
    cur: Any, op: LockedOperation, facts: ToolFacts, *, actor: str
) -> DomainError | None:
    """GOAL_ATTEMPTS_EXHAUSTED where too many operations of this run, goal and tool FAILED."""
    if op.goal is None:
        return None
    cur.execute(_FAILED_FOR_GOAL, (op.run_pk, op.goal, op.tool, op.id))
    failed = cur.fetchone()[0]
    if failed < facts.attempts_per_goal:
        return None
    reason = f"{failed} operations for this goal have failed with this tool."
    details = {"goal": op.goal, "tool": op.tool, "failed": failed}
    return _refuse(cur, op, "goal_exhausted", "GOAL_ATTEMPTS_EXHAUSTED", reason, actor, details)


def check_currency(op: LockedOperation, run: RunRow, facts: ToolFacts) -> DomainError | None:
    """VALIDATION_ERROR for money that the run's budget cannot count."""
    if run.budget_max_spend_minor is None or run.budget_currency is None:
        return None
    if op.amount_minor is None or op.currency == run.budget_currency:
        return None
    return DomainError(
        "VALIDATION_ERROR",
        f"The run's budget is in {run.budget_currency}, this call in {op.currency}.",
        pointer=f"/args{facts.currency_pointer}",
    )


def check_budget(cur: Any, op: LockedOperation, run: RunRow, *, actor: str) -> DomainError | None:
    """BUDGET_EXCEEDED where this operation would be one step or one amount too many."""
    if not run.has_budget:
        return None
    cur.execute(_USED, (op.step, run.id, op.id))
    steps, spent = cur.fetchone()
    steps, spent = steps + 1, int(spent) + (op.amount_minor or 0)
    if run.budget_max_steps is not None and steps > run.budget_max_steps:
        reason = f"This would be step {steps} of {run.budget_max_steps}."
    elif run.budget_max_spend_minor is not None and spent > run.budget_max_spend_minor:
        reason = (
            f"This would bring the spend to {spent} of {run.budget_max_spend_minor} minor units"
            f" {run.budget_currency or ''}".rstrip()
            + "."
        )
    else:
        return None
    details = {"run_id": run.run_id, "steps": steps, "spend_minor": spent}
    return _refuse(cur, op, "budget_exceeded", "BUDGET_EXCEEDED", reason, actor, details)


def _refuse(
    cur: Any,
    op: LockedOperation,
    failure: str,
    code: str,
    reason: str,
    actor: str,
    details: dict[str, Any],
) -> DomainError:
    endings.refuse(cur, op, failure, actor=actor, data=details)
    incidents.open_incident(cur, failure, op=op, cause=f"{op.id}", actor=actor, details=details)
    return DomainError(code, reason, idem_key=op.idem_key, failure=failure)
