"""The ways out of UNKNOWN: what looks and people concluded, checked once more under the lock.

Each verb locks the operation, checks what page "the domain" asks for, and carries it along one
edge. Gate verbs stand in `operations.gates` and are offered here too.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from operations import (
    attempts,
    catalogue,
    effects,
    endings,
    permits,
    rows,
    states,
    transitions,
)
from operations.attempts import AttemptRow, Tries
from operations.catalogue import ToolFacts
from operations.effects import Effect
from operations.errors import DomainError, not_found
from operations.gates import grant_gate, open_gate, refuse_gate, revoke_gate, seal_gate
from operations.rows import LockedOperation

__all__ = [
    "grant_gate",
    "open_gate",
    "refuse_gate",
    "release",
    "revoke_gate",
    "seal_gate",
    "set_verdict",
    "settle_absent",
    "settle_committed",
    "t_emit",
]

#: Verdicts under which nothing may be executed again, whoever asks.
BLOCKING: Final = frozenset({"committed", "committed_late", "in_flight", "conflict", "duplicate"})
#: Look-ups whose absence may release an unsafe tool.
_PROVING: Final = frozenset({"A", "B", "T"})


def settle_committed(
    cur: Any,
    op_id: UUID,
    *,
    actor: str,
    provider_ref: str | None,
    effect_status: str | None = None,
    evidence: Mapping[str, Any] | None = None,
    late: bool = False,
) -> LockedOperation:
    """The effect was found, or a person signed that it happened. Any state but COMMITTED moves.

    Found again when COMMITTED: a second object is a `duplicate_effect`, a new status is noted.
    `late`: it came after the settle point, which the event says.
    """
    op, tries = _lock(cur, op_id)
    effect = Effect(provider_ref, effect_status)
    attempt = _whose(tries)
    if op.state == states.COMMITTED:
        attempt = next((row for row in tries if row.standing == "committed"), None)
        effects.again(cur, op, tries, attempt, effect, actor=actor)
    else:
        data = {"evidence": dict(evidence or {}), "late": late}
        effects.commit(cur, op, tries, attempt, effect, actor=actor, data=data)
    return op


def settle_absent(
    cur: Any,
    op_id: UUID,
    *,
    actor: str,
    evidence: Mapping[str, Any] | None = None,
    failure: str | None = None,
) -> LockedOperation:
    """UNKNOWN -> FAILED: absence is proved and the intent is closed, or a person signed for it.

    `failure` is `absent` (proved; refused for an open intent, which is released instead) or
    `settled_absent` (signed, which is what a person's actor means; closes the intent).
    """
    failure = failure or ("settled_absent" if actor.startswith("user:") else "absent")
    op, tries = _lock_unknown(cur, op_id)
    if failure == "absent" and not op.closed:
        raise DomainError("NOT_RELEASABLE", "The intent is open: absence releases it.")
    _end_doubts(cur, tries)
    endings.fail(
        cur, op, failure, actor=actor, data={"evidence": dict(evidence or {})}, closed=True,
        closed_as=op.closed_as or failure,
    )  # fmt: skip
    return op


def release(
    cur: Any, op_id: UUID, *, reason: str, actor: str, evidence: Mapping[str, Any] | None = None
) -> LockedOperation:
    """UNKNOWN -> PENDING: it may be claimed again, with the same key; NOT_RELEASABLE says why not.

    `evidence` names the look-up class that proved absence (`proved_by_class`).
    """
    op, tries = _lock_unknown(cur, op_id)
    release_locked(cur, op, tries, reason=reason, actor=actor, evidence=evidence or {})
    return op


def release_locked(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    *,
    reason: str,
    actor: str,
    evidence: Mapping[str, Any],
) -> None:
    """The same for an operation that is locked already."""
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    refusal = _why_not(cur, op, tries, facts, reason, evidence)
    if refusal:
        raise DomainError("NOT_RELEASABLE", refusal, idem_key=op.idem_key)
    columns: dict[str, Any] = {"release_reason": reason, "gate_used": False}
    if reason in ("safe", "absent"):
        _end_doubts(cur, tries)
    elif reason == "replay":
        columns["waiting_until"] = permits.key_window_end(op, facts)
    elif reason == "signed":
        # What was approved was approved for the first try; this one is asked about anew.
        columns |= {"gate": "none", "gate_ref": None, "gate_expires_at": None}
    data = {"reason": reason, "evidence": dict(evidence)}
    transitions.transition(
        cur, op, states.PENDING, "operation.released", actor=actor, data=data, **columns
    )


def release_if_allowed(
    cur: Any, op: LockedOperation, tries: Tries, *, reason: str, actor: str
) -> bool:
    """Release a locked operation where nothing stands against it; whether it did."""
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    if op.state != states.UNKNOWN or _why_not(cur, op, tries, facts, reason, {}):
        return False
    release_locked(cur, op, tries, reason=reason, actor=actor, evidence={})
    return True


def cancel_compensation(
    cur: Any, op: LockedOperation, original: LockedOperation, *, actor: str
) -> None:
    """There is nothing to undo: the original ended FAILED."""
    data = {"original": original.handle, "original_state": original.state}
    endings.refuse(cur, op, "cancelled", actor=actor, data=data)


def set_verdict(
    cur: Any,
    op_id: UUID,
    verdict: Mapping[str, Any],
    *,
    actor: str,
    waiting_on: str | None = None,
    waiting_until: datetime | None = None,
) -> LockedOperation:
    """Write down what the findings prove so far; an event only where the verdict's kind changed."""
    op, _ = _lock(cur, op_id)
    columns: dict[str, Any] = {"verdict": dict(verdict)}
    if op.state == states.UNKNOWN:
        columns |= {"waiting_on": waiting_on or "look", "waiting_until": waiting_until}
    if (op.verdict or {}).get("kind") == verdict.get("kind"):
        rows.touch(cur, op, **columns)
    else:
        data = {"kind": verdict.get("kind"), "sentence": verdict.get("sentence")}
        transitions.record_event(cur, op, "operation.verdict", actor=actor, data=data, **columns)
    return op


def t_emit(cur: Any, op_id: UUID) -> datetime | None:
    """The latest instant at which an attempt not proved harmless could still send; None: none."""
    op, tries = _lock(cur, op_id)
    del op
    return attempts.t_emit(tries)


def _why_not(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    facts: ToolFacts,
    reason: str,
    evidence: Mapping[str, Any],
) -> str | None:
    if op.closed:
        return "The intent is closed: it is settled, never released."
    if endings.has_live_compensation(cur, op.id):
        return "A compensation was chosen for it."
    kind = (op.verdict or {}).get("kind")
    if reason == "safe":
        return None if op.tool_class == "safe" else "The tool does more than read."
    if reason != "absent" and kind in BLOCKING:
        return f"The last look says {kind}: executing again could double the effect."
    if reason == "replay":
        return _why_no_replay(op, tries, facts)
    if reason == "absent":
        return _why_not_absent(op, tries, facts, evidence)
    if reason == "signed":
        return _why_not_signed(op, tries, facts)
    return f"{reason!r} is no reason to release."


def _why_no_replay(op: LockedOperation, tries: Tries, facts: ToolFacts) -> str | None:
    if not facts.dedupes:
        return "The provider does not make two sends under our key into one effect."
    window = permits.key_window_end(op, facts)
    if window is None or any(row.origin == "hearsay" for row in tries.in_doubt()):
        return "It is not known when the key was first sent."
    if window <= tries.now:
        return "The provider may have forgotten the key: the same key is a new request now."
    return None


def _why_not_absent(
    op: LockedOperation, tries: Tries, facts: ToolFacts, evidence: Mapping[str, Any]
) -> str | None:
    if is_unsafe_now(op, facts, tries.now):
        proof = evidence.get("proved_by_class") or evidence.get("class")
        if proof not in _PROVING:
            return "Only a look-up of class A, B or T proves absence for an unsafe tool."
        if proof != "T" and not all(row.fenced for row in tries.in_doubt()):
            return "An attempt was not fenced: it could have been sent at any time."
    return None


def _why_not_signed(op: LockedOperation, tries: Tries, facts: ToolFacts) -> str | None:
    last = attempts.t_emit(tries)
    if last is not None and last + request_lifetime(op, facts) > tries.now:
        return "The call may still be on its way: it cannot be released yet."
    return None


def request_lifetime(op: LockedOperation, facts: ToolFacts) -> timedelta:
    """L: how long after `t_emit` the provider may still act. Longer than the catalogue says where
    the last verdict knows it to be (Stripe rolls a 500 forward for a day).
    """
    judged = (op.verdict or {}).get("lifetime_seconds") or 0
    return timedelta(seconds=max(facts.provider_max_seconds, judged))


def is_unsafe_now(op: LockedOperation, facts: ToolFacts, now: datetime) -> bool:
    """Whether repeating could double the effect: outside its key's retention any write could."""
    if op.tool_class == "safe":
        return False
    if not facts.dedupes:
        return True
    window = permits.key_window_end(op, facts)
    return window is not None and window <= now


def _whose(tries: Tries) -> AttemptRow | None:
    """The attempt that a found effect is taken for: the oldest that may have had it."""
    doubtful = tries.in_doubt()
    if doubtful:
        return doubtful[0]
    live = tries.live
    return live if live is not None and live.may_have_sent else None


def _end_doubts(cur: Any, tries: Tries) -> None:
    """Absence is proved for every attempt at once."""
    for row in tries.in_doubt():
        attempts.end(cur, row, "no_effect", None, tries.now)


def _lock(cur: Any, op_id: UUID) -> tuple[LockedOperation, Tries]:
    op = rows.lock(cur, op_id=op_id)
    if op is None:
        raise not_found()
    return op, attempts.load(cur, op)


def _lock_unknown(cur: Any, op_id: UUID) -> tuple[LockedOperation, Tries]:
    op, tries = _lock(cur, op_id)
    if op.state != states.UNKNOWN:
        raise DomainError("NOT_UNKNOWN", f"It is {op.state} now.", idem_key=op.idem_key)
    return op, tries
