"""What approvals decided, written on the row that claim, consume and `sending` lock.

A refusal that reaches this row is seen by whoever would send next. A word about another request
than the one the operation waits for now changes nothing.
"""

from datetime import datetime
from typing import Any

from operations import endings, states, transitions
from operations.rows import LockedOperation


def open_gate(cur: Any, op: LockedOperation, ref: str, expires_at: datetime, *, actor: str) -> None:
    """A request was opened: a locked PENDING operation waits for it."""
    transitions.record_event(
        cur, op, "operation.gate_opened", actor=actor,
        data={"approval": ref, "expires_at": expires_at}, gate="waiting", gate_ref=ref,
        gate_expires_at=expires_at, gate_used=False, waiting_on="approval",
        waiting_until=expires_at,
    )  # fmt: skip


def grant_gate(
    cur: Any,
    op: LockedOperation,
    ref: str,
    expires_at: datetime,
    *,
    actor: str,
    waiting_on: str = "runtime",
) -> None:
    """Approved until then. `waiting_on="sealing"`: not before the decision is in a checkpoint."""
    if op.gate_ref != ref or op.gate != "waiting":
        return
    columns: dict[str, Any] = {"gate": "granted", "gate_expires_at": expires_at}
    if op.state == states.PENDING:
        columns |= {"waiting_on": waiting_on, "waiting_until": expires_at}
    transitions.record_event(
        cur, op, "operation.gate_granted", actor=actor,
        data={"approval": ref, "expires_at": expires_at}, **columns,
    )  # fmt: skip


def seal_gate(cur: Any, op: LockedOperation, ref: str, *, actor: str) -> None:
    """The decisions are in a published checkpoint: the runtime may go on."""
    if op.state == states.PENDING and op.gate_ref == ref and op.waiting_on == "sealing":
        transitions.record_event(
            cur, op, "operation.gate_sealed", actor=actor, data={"approval": ref},
            waiting_on="runtime",
        )  # fmt: skip


def refuse_gate(cur: Any, op: LockedOperation, ref: str, failure: str, *, actor: str) -> None:
    """Denied, expired or withdrawn. PENDING ends; what is being sent gets no more permits.

    A denial closes the intent also where it comes too late to stop the attempt.
    """
    if op.gate_ref != ref or op.state in states.TERMINAL:
        return
    data = {"approval": ref, "failure": failure}
    if op.state == states.PENDING:
        transitions.record_event(
            cur, op, "operation.gate_refused", actor=actor, data=data, gate="refused"
        )
        endings.refuse(cur, op, failure, actor=actor, data=data)
        return
    columns: dict[str, Any] = {"gate": "revoked" if op.state == states.INVOKED else "refused"}
    if not op.closed:
        columns |= {"closed": True, "closed_as": failure}
    transitions.record_event(cur, op, "operation.gate_revoked", actor=actor, data=data, **columns)


def revoke_gate(
    cur: Any, op: LockedOperation, ref: str, *, actor: str, reason: str = "revoked"
) -> None:
    """The approval no longer holds (policy, key, kill switch): no permit, and the next claim asks.

    The intent stays open.
    """
    if op.gate_ref != ref or op.state in states.TERMINAL or op.gate not in ("waiting", "granted"):
        return
    columns: dict[str, Any] = {"gate": "revoked"}
    if op.state == states.PENDING:
        columns |= {"waiting_on": "runtime", "waiting_until": None}
    transitions.record_event(
        cur, op, "operation.gate_revoked", actor=actor, data={"approval": ref, "reason": reason},
        **columns,
    )  # fmt: skip
