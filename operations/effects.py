"""Positive evidence: an effect has happened. Believed from whoever brings it, however late.

COMMITTED is absorbing. What arrives afterwards is compared with what is known: another object is
a second effect, the same object with another result is a contradiction; both are incidents.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from operations import attempts, catalogue, endings, incidents, states, transitions
from operations.attempts import AttemptRow, Tries
from operations.catalogue import ToolFacts
from operations.rows import LockedOperation

_EDGES: Final = {
    states.PENDING: "operation.late_effect",
    states.FAILED: "operation.late_effect",
    states.INVOKED: "operation.committed",
    states.UNKNOWN: "operation.reconciled",
}


@dataclass(frozen=True, slots=True)
class Effect:
    """What is said to have happened. `result_sha256` is over the canonical result."""

    provider_ref: str | None = None
    effect_status: str | None = None
    result_sha256: bytes | None = None


def commit(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    attempt: AttemptRow | None,
    effect: Effect,
    *,
    actor: str,
    data: Mapping[str, Any] | None = None,
) -> None:
    """To COMMITTED from any other state, with the incidents that its history calls for.

    `attempt` is the one whose effect it is, where that is known.
    """
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    before = op.state
    if attempt is not None:
        attempts.end(
            cur, attempt, "committed", "committed", tries.now,
            provider_ref=effect.provider_ref, result_sha256=effect.result_sha256,
        )  # fmt: skip
    _settle_others(cur, op, tries, attempt, facts)
    transitions.transition(
        cur, op, states.COMMITTED, _EDGES[before], actor=actor,
        data={**_told(effect, attempt), **(data or {})},
        provider_ref=effect.provider_ref or op.provider_ref,
        effect_status=effect.effect_status or op.effect_status,
    )  # fmt: skip
    if before in (states.PENDING, states.FAILED):
        _open(cur, op, "late_effect", f"{op.id}", actor, {"was": before})
    if tries.in_doubt():
        numbers = [row.number for row in tries.in_doubt()]
        _open(cur, op, "possible_duplicate", f"{op.id}", actor, {"attempts_in_doubt": numbers})
    _check_approval(cur, op, attempt, before, actor)
    endings.tell_compensation(cur, op, actor=actor)


def again(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    attempt: AttemptRow | None,
    effect: Effect,
    *,
    actor: str,
) -> None:
    """One more positive about a COMMITTED operation: nothing new, a detail, or a second effect."""
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    known = [row for row in tries if row.standing == "committed"]
    problem = _contradiction(op, known, attempt, effect, facts)
    if problem:
        cause = f"{op.id}:{effect.provider_ref or (attempt.number if attempt else 'unnamed')}"
        if problem == "effect_mismatch" and effect.result_sha256:
            cause += f":{effect.result_sha256.hex()}"
        told = _told(effect, attempt) | {"known_refs": sorted(_refs(op, known))}
        _open(cur, op, problem, cause, actor, told)
    elif attempt is not None and attempt in known:
        _add_details(cur, op, attempt, effect, actor)
    if attempt is not None and attempt.standing in ("live", "in_doubt", "not_sent", "no_effect"):
        attempts.end(
            cur, attempt, "committed", "committed", tries.now,
            provider_ref=effect.provider_ref, result_sha256=effect.result_sha256,
        )  # fmt: skip
        transitions.record_event(
            cur, op, "operation.attempt_resolved", actor=actor,
            data={**_told(effect, attempt), "standing": "committed"},
        )  # fmt: skip


def _contradiction(
    op: LockedOperation,
    known: list[AttemptRow],
    attempt: AttemptRow | None,
    effect: Effect,
    facts: ToolFacts,
) -> str | None:
    refs = _refs(op, known)
    if effect.provider_ref and refs and effect.provider_ref not in refs:
        return "duplicate_effect"
    names_known_object = bool(effect.provider_ref and effect.provider_ref in refs)
    is_same_attempt = attempt is not None and attempt in known
    if not names_known_object and not is_same_attempt and not _merges(op, facts, attempt, *known):
        return "duplicate_effect" if known and facts.tool_class != "safe" else None
    if effect.result_sha256 is None:
        return None
    results = {
        row.result_sha256
        for row in known
        if row.result_sha256 is not None
        and (row is attempt or not effect.provider_ref or row.provider_ref == effect.provider_ref)
    }
    return "effect_mismatch" if results and effect.result_sha256 not in results else None


def _refs(op: LockedOperation, known: list[AttemptRow]) -> set[str]:
    return {ref for ref in (op.provider_ref, *(row.provider_ref for row in known)) if ref}


def _add_details(
    cur: Any, op: LockedOperation, attempt: AttemptRow, effect: Effect, actor: str
) -> None:
    """What the first report did not say; `effect_status` moves on, on an axis of its own."""
    columns: dict[str, Any] = {}
    if effect.provider_ref and not op.provider_ref:
        columns["provider_ref"] = effect.provider_ref
    if effect.effect_status and effect.effect_status != op.effect_status:
        columns["effect_status"] = effect.effect_status
    if columns:
        transitions.record_event(
            cur, op, "operation.effect_status", actor=actor, data=dict(columns), **columns
        )
    said = {
        name: value
        for name, value in (
            ("provider_ref", effect.provider_ref),
            ("result_sha256", effect.result_sha256),
        )
        if value is not None and getattr(attempt, name) is None
    }
    if said:
        attempts.update(cur, attempt, **said)


def _settle_others(
    cur: Any, op: LockedOperation, tries: Tries, attempt: AttemptRow | None, facts: ToolFacts
) -> None:
    """What the effect says about the attempts that it is not of."""
    for row in tries:
        if row is attempt or row.standing not in ("live", "in_doubt"):
            continue
        if row.standing == "live" and not row.may_have_sent:
            attempts.end(cur, row, "not_sent", None, tries.now)
        elif facts.tool_class == "safe":
            attempts.end(cur, row, "no_effect", None, tries.now)
        elif _merges(op, facts, attempt, row):
            attempts.end(cur, row, "covered", None, tries.now)
        elif row.standing == "live":
            attempts.doubt(cur, row, "unknown", facts, tries.now)


def _merges(op: LockedOperation, facts: ToolFacts, *sends: AttemptRow | None) -> bool:
    """Whether the provider makes these sends into one effect: all in one life of our key."""
    if not facts.dedupes or op.key_expires_at is None or facts.retention_seconds is None:
        return False
    began = op.key_expires_at - timedelta(seconds=facts.retention_seconds)
    return all(
        row is not None and began <= (row.permit_at or row.granted_at) < op.key_expires_at
        for row in sends
    )


_DENIED_AT: Final = """
SELECT max(at) FROM operations_event
 WHERE operation_id = %s AND type IN ('operation.gate_refused', 'operation.gate_revoked')
"""


def _check_approval(
    cur: Any, op: LockedOperation, attempt: AttemptRow | None, before: str, actor: str
) -> None:
    """Executed although nobody had approved it, or after somebody had said no."""
    was_granted = attempt is not None and attempt.origin == "claim"
    if op.gate == "waiting" and not was_granted:
        _open(cur, op, "executed_without_approval", f"{op.id}", actor, {"was": before})
    elif op.gate in ("refused", "revoked"):
        cur.execute(_DENIED_AT, (op.id,))
        denied_at: datetime | None = cur.fetchone()[0]
        if not _was_over_before(attempt, denied_at):
            told = {"approval": op.gate_ref, "denied_at": denied_at}
            _open(cur, op, "executed_after_denial", f"{op.id}", actor, told)


def _was_over_before(attempt: AttemptRow | None, denied_at: datetime | None) -> bool:
    """Whether the attempt's bytes had all left, at the latest, when somebody said no."""
    if attempt is None or attempt.emits_until is None or denied_at is None:
        return False
    return attempt.emits_until < denied_at


def _told(effect: Effect, attempt: AttemptRow | None) -> dict[str, Any]:
    told: dict[str, Any] = {"provider_ref": effect.provider_ref}
    if attempt is not None:
        told["attempt"] = attempt.number
    if effect.result_sha256 is not None:
        told["result_sha256"] = effect.result_sha256.hex()
    if effect.effect_status is not None:
        told["effect_status"] = effect.effect_status
    return told


def _open(
    cur: Any, op: LockedOperation, kind: str, cause: str, actor: str, details: dict[str, Any]
) -> None:
    incidents.open_incident(cur, kind, op=op, cause=cause, actor=actor, details=details)
