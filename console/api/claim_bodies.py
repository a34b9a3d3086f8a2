"""Bodies that become the domain's own requests: a claim, a report of its outcome."""

from typing import Any

from console.api import problems, shapes
from operations.canonical import Member
from operations.claims import ClaimRequest, OutcomeReport


def claim_request(body: bytes) -> ClaimRequest:
    """The checked claim; a Problem says what is wrong with its shape."""
    values, members = shapes.read(shapes.CLAIM, body)
    args, args_raw = shapes.args_of(values, members)
    call_id = values.get("tool_call_id", "")
    if not call_id and "position" not in values:
        raise problems.tool_call_id_missing()
    if call_id.startswith("#"):
        raise problems.invalid("Ids that begin with # are reserved.", "/tool_call_id")
    run = values["run"]
    attempt = values.get("attempt", {})
    budget = _budget(run.get("budget", {}))
    return ClaimRequest(
        run_id=run["id"],
        agent=run["agent"],
        step=values["step"],
        tool=values["tool"],
        args=args,
        args_raw=args_raw,
        tool_call_id=call_id,
        position=values.get("position"),
        agent_version=run.get("agent_version"),
        prompt_version=run.get("prompt_version"),
        code_version=run.get("code_version"),
        trigger=run.get("trigger"),
        budget_max_steps=budget.get("max_steps"),
        budget_max_spend_minor=budget.get("max_spend_minor"),
        budget_currency=budget.get("currency"),
        args_fingerprint=values.get("args_fingerprint"),
        redacted=values.get("redacted", ()),
        goal=values.get("goal"),
        reason=values.get("reason"),
        model_output=_raw(members, values, "model_output"),
        attempt_id=attempt.get("id"),
        layer=attempt.get("layer", ""),
        worker=attempt.get("worker", ""),
        lease_seconds=values.get("lease_seconds"),
        fenced=values.get("fenced", False),
        send_token=values.get("send_token"),
        executor=values.get("executor", "self"),
        compensates=values.get("compensates"),
        idem_key=values.get("idem_key"),
    )


def _budget(budget: dict[str, Any]) -> dict[str, Any]:
    if "max_spend_minor" in budget and "currency" not in budget:
        raise problems.invalid("A spend budget needs its currency.", "/run/budget/currency")
    if "currency" in budget:
        budget["currency"] = budget["currency"].upper()
    return budget


def _raw(members: dict[str, Member], values: dict[str, Any], name: str) -> bytes | None:
    return members[name].raw if name in values else None


def outcome_report(body: bytes) -> OutcomeReport:
    """The checked report; `result` keeps its exact text."""
    values, members = shapes.read(shapes.OUTCOME, body)
    return OutcomeReport(
        attempt_number=values["attempt_number"],
        outcome=values["outcome"],
        attempt_id=values.get("attempt_id"),
        send_token=values.get("send_token"),
        effect=values.get("effect"),
        permanent=values.get("permanent", False),
        result=_raw(members, values, "result"),
        provider_ref=values.get("provider_ref"),
        effect_status=values.get("effect_status"),
        error=values.get("error"),
    )
