"""What a report proves about a locked operation, judged when it comes and however late.

Positive reports are believed from anyone (`operations.effects`). A negative counts only from the
very sender, and only where no other attempt is in doubt. `unknown` needs only the number. What
does not count is kept as evidence and changes nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from operations import (
    attempts,
    canonical,
    catalogue,
    effects,
    endings,
    incidents,
    intents,
    lapses,
    states,
    transitions,
)
from operations.attempts import AttemptRow, Tries
from operations.catalogue import ToolFacts
from operations.claims import OutcomeReport
from operations.effects import Effect
from operations.rows import LockedOperation

#: Standings under which a late word of the same sender may still change something.
_UNSETTLED: Final = frozenset({"live", "in_doubt", "not_sent"})


def judge(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    report: OutcomeReport,
    *,
    runtime: UUID | None,
    actor: str,
) -> bool:
    """Judge one report of an issued attempt; True where it is evidence only (`superseded`)."""
    attempt = tries.number(report.attempt_number)
    if report.kind == "committed":
        return positive(cur, op, tries, attempt, report, actor=actor)
    if attempt is None:
        return _evidence(cur, op, report)
    if report.kind == "unknown":
        return _unknown(cur, op, tries, attempt, report, actor)
    if runtime is None or not attempt.is_vouched_by(report, runtime):
        return _evidence(cur, op, report)
    return _negative(cur, op, tries, attempt, report, actor)


def positive(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    attempt: AttemptRow | None,
    report: OutcomeReport,
    *,
    actor: str,
) -> bool:
    """An effect is reported; `attempt` is None where it was never granted."""
    effect = effect_of(report)
    number = attempt.number if attempt is not None else 0
    if op.state == states.COMMITTED:
        was_known = attempt is not None and attempt.standing == "committed"
        if not was_known or effect.result_sha256 != getattr(attempt, "result_sha256", None):
            _evidence(cur, op, report)
        effects.again(cur, op, tries, attempt, effect, actor=actor)
        return not was_known
    if report.result is not None:
        intents.keep_payload(cur, op.id, "result", report.result, number)
    effects.commit(cur, op, tries, attempt, effect, actor=actor)
    return False


def effect_of(report: OutcomeReport) -> Effect:
    """The effect that a positive report tells of; two spellings of one result are one result."""
    return Effect(report.provider_ref, report.effect_status, result_digest(report.result))


def result_digest(result: bytes | None) -> bytes | None:
    """SHA-256 of a result's canonical form."""
    if result is None:
        return None
    return sha256(canonical.canonicalize(canonical.parse_strict(result))).digest()


def evidence_of(report: OutcomeReport) -> bytes:
    """A report as it is kept: canonical JSON, so that the same report is kept once."""
    said = {name: value for name, value in asdict(report).items() if value is not None}
    if report.result is not None:
        said["result"] = canonical.parse_strict(report.result)
    return canonical.canonicalize(said)


def _unknown(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    attempt: AttemptRow,
    report: OutcomeReport,
    actor: str,
) -> bool:
    if attempt.standing not in ("live", "not_sent"):
        _evidence(cur, op, report)
        # The same news again is no contradiction while it is still the newest.
        return not (attempt.standing == "in_doubt" and attempt.number == op.attempt_number)
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    if op.state == states.FAILED:
        return _evidence(cur, op, report)
    attempts.doubt(cur, attempt, "unknown", facts, tries.now, **_error_columns(report))
    _keep_error(cur, op, report)
    told = _told(report)
    if op.state in (states.PENDING, states.INVOKED) and _is_newest_word(op, tries):
        transitions.transition(
            cur, op, states.UNKNOWN, "operation.in_doubt", actor=actor, data=told
        )
        return False
    transitions.record_event(
        cur, op, "operation.attempt_resolved", actor=actor, data=told | {"standing": "in_doubt"}
    )
    if op.state == states.COMMITTED and facts.tool_class != "safe":
        incidents.open_incident(
            cur, "possible_duplicate", op=op, cause=f"{op.id}", actor=actor, details=told
        )
    return True


def _is_newest_word(op: LockedOperation, tries: Tries) -> bool:
    """While another attempt is live the operation stays INVOKED, whatever an older one says."""
    return op.state == states.PENDING or tries.live is None


def _negative(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    attempt: AttemptRow,
    report: OutcomeReport,
    actor: str,
) -> bool:
    if attempt.standing == "no_effect":
        return attempt.number != op.attempt_number
    if attempt.standing not in _UNSETTLED:
        return _evidence(cur, op, report)
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    was_live = attempt.standing == "live"
    others = tries.in_doubt(but=attempt)
    if others and report.replayed and facts.dedupes:
        # The provider gave back its saved answer to this key: no send under it had an effect.
        for row in others:
            attempts.end(cur, row, "no_effect", None, tries.now)
        others = []
    if others and not was_live:
        return _evidence(cur, op, report)
    attempts.end(
        cur, attempt, "no_effect", "failed", tries.now,
        permanent=report.permanent, error_replayed=report.replayed, **_error_columns(report),
    )  # fmt: skip
    _keep_error(cur, op, report)
    told = _told(report)
    if op.state == states.UNKNOWN or (op.state == states.INVOKED and was_live):
        _decide(cur, op, tries, report, facts, others, actor, told)
        return False
    transitions.record_event(
        cur, op, "operation.attempt_resolved", actor=actor, data=told | {"standing": "no_effect"}
    )
    return True


def _decide(
    cur: Any,
    op: LockedOperation,
    tries: Tries,
    report: OutcomeReport,
    facts: ToolFacts,
    others: list[AttemptRow],
    actor: str,
    told: dict[str, Any],
) -> None:
    """No effect of this attempt: doubt of another, the end, or once more."""
    if others or op.closed:
        lapses.not_sent(cur, op, tries, actor=actor, data=told)
    elif report.permanent and tries.permanent > facts.attempts_permanent:
        endings.fail(cur, op, "provider_declined", actor=actor, data=told)
        _open(cur, op, "permanent_failure", actor, told)
    elif op.attempts >= facts.attempts_transient:
        endings.fail(
            cur, op, "attempts_exhausted", actor=actor, data=told, closed=True,
            closed_as="attempts_exhausted",
        )  # fmt: skip
        _open(cur, op, "attempts_exhausted", actor, told)
    else:
        lapses.not_sent(cur, op, tries, actor=actor, data=told)


def _evidence(cur: Any, op: LockedOperation, report: OutcomeReport) -> bool:
    """Keep it, and change nothing."""
    intents.keep_payload(cur, op.id, "evidence", evidence_of(report), report.attempt_number)
    return True


def _keep_error(cur: Any, op: LockedOperation, report: OutcomeReport) -> None:
    if report.error:
        body = json.dumps(report.error, ensure_ascii=False).encode()
        intents.keep_payload(cur, op.id, "error", body, report.attempt_number)


def _error_columns(report: OutcomeReport) -> dict[str, Any]:
    error = report.error or {}
    return {"error_type": error.get("type"), "http_status": error.get("http_status")}


def _told(report: OutcomeReport) -> dict[str, Any]:
    told: dict[str, Any] = {"attempt": report.attempt_number, "outcome": report.kind}
    told |= {name: value for name, value in _error_columns(report).items() if value is not None}
    if report.kind == "negative":
        told |= {"permanent": report.permanent, "replayed": report.replayed}
    return told


def _open(cur: Any, op: LockedOperation, kind: str, actor: str, details: Mapping[str, Any]) -> None:
    incidents.open_incident(cur, kind, op=op, cause=f"{op.id}", actor=actor, details=details)
