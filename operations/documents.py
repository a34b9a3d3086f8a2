"""The Operation JSON of the HTTP contract: one shape for claims, reads, lists and approvals. Pure.

`decision` and `possible_windows` are derived here and never stored.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from django.conf import settings

from operations import states
from operations.ids import handle
from operations.rows import LockedOperation

#: Who resolves an incident that its operation's records no longer show; it is not listed then.
WITHDRAWN: Final = "system:fold"
_DECISIONS: Final = {
    states.INVOKED: "in_flight",
    states.UNKNOWN: "await_reconciliation",
    states.COMMITTED: "replay",
    states.FAILED: "refused",
}


@dataclass(frozen=True, slots=True)
class Beside:
    """What an operation's document shows from other rows.

    `result` is exact JSON bytes; `incidents` are ready JSON objects; `superseded_by` and
    `compensates` are idempotency keys. `has_doubt`: an attempt may have had its effect unseen.
    `may_have_sent`: the live attempt is unfenced or has its permit.
    """

    run_status: str = "running"
    result: bytes | None = None
    result_erased: bool = False
    incidents: Sequence[Mapping[str, Any]] = ()
    superseded_by: str | None = None
    compensates: str | None = None
    has_doubt: bool = False
    may_have_sent: bool = False


NOTHING_BESIDE: Final = Beside()


def operation_document(op: LockedOperation, beside: Beside = NOTHING_BESIDE) -> dict[str, Any]:
    """The Operation of the contract; times are RFC 3339 UTC, `result` is the parsed value."""
    op_handle = handle("op", op.id)
    return {
        "id": op_handle,
        "idem_key": op.idem_key,
        "environment": op.environment,
        "namespace": op.namespace,
        "run_id": op.run_id,
        "step": op.step,
        "tool_call_id": op.tool_call_id,
        "position": op.position,
        "id_missing": op.id_missing,
        "tool": op.tool,
        "tool_class": op.tool_class,
        "catalogue_version": op.catalogue_version,
        "args_fingerprint": op.args_fingerprint,
        "goal": op.goal,
        "state": op.state,
        "failure": op.failure,
        "waiting_on": op.waiting_on,
        "waiting_until": rfc3339(op.waiting_until),
        "closed": op.closed,
        "decision": decision_of(op),
        "version": op.version,
        "attempts": op.attempts,
        "attempt_number": op.attempt_number,
        "replays": op.replays,
        "result": json.loads(beside.result) if beside.result is not None else None,
        "result_erased": beside.result_erased,
        "provider_ref": op.provider_ref,
        "effect_status": op.effect_status,
        "amount_minor": op.amount_minor,
        "currency": op.currency,
        "possible_windows": possible_windows(op, beside),
        "verdict": op.verdict,
        "approval": approval_of(op),
        "incidents": list(beside.incidents),
        "superseded_by": beside.superseded_by,
        "compensates": beside.compensates,
        "executor": op.executor,
        "mode": op.mode,
        "flags": list(op.flags),
        "key_expires_at": rfc3339(op.key_expires_at),
        "created_at": rfc3339(op.created_at),
        "updated_at": rfc3339(op.updated_at),
        "url": f"{settings.BASE_URL}/ops/{op_handle}/",
    }


def decision_of(op: LockedOperation) -> str:
    """What a claim would get now: `execute`, `replay`, `await_approval`, `await_reconciliation`,
    `delegated`, `in_flight` or `refused`.
    """
    if op.state == states.PENDING:
        return _decision_while_pending(op)
    if op.state == states.UNKNOWN and op.tool_class == "safe" and not op.closed:
        # A call that only reads is released by its next claim.
        return "execute"
    return _DECISIONS[op.state]


def _decision_while_pending(op: LockedOperation) -> str:
    if op.closed or op.gate == "refused":
        return "refused"
    if op.gate == "revoked":
        return "await_approval"
    if op.waiting_on == "look":
        # A compensation, until its original is settled.
        return "await_reconciliation"
    if op.gate == "granted":
        if op.waiting_on == "sealing" or _is_past(op.gate_expires_at):
            return "await_approval"
        return "execute" if op.executor == "self" else "delegated"
    return "await_approval" if op.gate == "waiting" or op.waiting_on == "approval" else "execute"


def possible_windows(op: LockedOperation, beside: Beside) -> list[str]:
    """Which crash windows nothing known excludes (W1 is over once there is an operation).

    A runtime's word that it was about to send does not tell W2 from W3; only the absence of a
    permit, or what the provider showed, does.
    """
    if op.state == states.FAILED:
        return []
    if op.state == states.COMMITTED:
        told = "delivered" in op.flags or beside.run_status != "running"
        return [] if told else ["W4"]
    if op.state == states.UNKNOWN:
        return _windows_of_verdict((op.verdict or {}).get("kind"))
    in_doubt = beside.has_doubt or (op.state == states.INVOKED and beside.may_have_sent)
    return ["W2", "W3"] if in_doubt else ["W2"]


def _windows_of_verdict(kind: str | None) -> list[str]:
    if kind in ("committed", "committed_late", "in_flight", "conflict", "duplicate"):
        return ["W3"]
    return ["W2"] if kind == "absent" else ["W2", "W3"]


def approval_of(op: LockedOperation) -> dict[str, Any] | None:
    """Id, page and expiry of the approval request that gates the operation, if one does."""
    if not op.gate_ref:
        return None
    return {
        "id": op.gate_ref,
        "url": f"{settings.BASE_URL}/approvals/{quote(op.gate_ref)}/",
        "expires_at": rfc3339(op.gate_expires_at),
    }


def incident_document(incident_id: UUID, kind: str, opened_at: datetime) -> dict[str, Any]:
    """An incident as an operation's document lists it."""
    return {"id": handle("inc", incident_id), "kind": kind, "opened_at": rfc3339(opened_at)}


def rfc3339(at: datetime | None) -> str | None:
    """A time as the contract writes it, UTC with `Z`."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at else None


def _is_past(at: datetime | None) -> bool:
    return at is not None and at <= datetime.now(UTC)
