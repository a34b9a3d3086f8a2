"""From a set of records to moves: the fold of a report-mode operation, compared with its row."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from operations import fold, money, states
from operations.attempts import AttemptRow
from operations.catalogue import ToolFacts
from operations.fold import AttemptFold, Fact, Fold
from operations.reports.births import Call
from operations.reports.reported import Reported
from operations.transitions import Move

#: How the fold moves a row: state by state, as the one table of transitions allows.
_PATHS: Final[dict[tuple[str, str], tuple[tuple[str, str], ...]]] = {
    (states.PENDING, states.INVOKED): (("operation.invoked", states.INVOKED),),
    (states.PENDING, states.UNKNOWN): (("operation.in_doubt", states.UNKNOWN),),
    (states.PENDING, states.COMMITTED): (("operation.late_effect", states.COMMITTED),),
    (states.INVOKED, states.COMMITTED): (("operation.committed", states.COMMITTED),),
    (states.INVOKED, states.FAILED): (("operation.failed", states.FAILED),),
    (states.INVOKED, states.UNKNOWN): (("operation.in_doubt", states.UNKNOWN),),
    (states.INVOKED, states.PENDING): (("operation.not_sent", states.PENDING),),
    (states.UNKNOWN, states.COMMITTED): (("operation.reconciled", states.COMMITTED),),
    (states.UNKNOWN, states.FAILED): (("operation.reconciled", states.FAILED),),
    (states.UNKNOWN, states.PENDING): (("operation.not_sent", states.PENDING),),
    (states.FAILED, states.COMMITTED): (("operation.late_effect", states.COMMITTED),),
    (states.FAILED, states.UNKNOWN): (("operation.in_doubt", states.UNKNOWN),),
}
#: An outcome that came before its TOOL_INVOKED opens the attempt itself.
_OPENED_AND_FAILED: Final = (
    ("operation.invoked", states.INVOKED),
    ("operation.failed", states.FAILED),
)
_STANDINGS: Final = {
    fold.COMMITTED: "committed",
    fold.IN_DOUBT: "in_doubt",
    fold.NO_EFFECT: "no_effect",
    fold.STARTED: "in_doubt",
}
_OUTCOMES: Final = {
    fold.COMMITTED: "committed",
    fold.IN_DOUBT: "unknown",
    fold.NO_EFFECT: "failed",
    fold.STARTED: None,
}
_MOST_IDS: Final = 20


@dataclass(slots=True)
class Before:
    """What was known of an operation before the batch: its records, and its attempts' rows."""

    facts: list[Fact] = field(default_factory=list)
    tries: list[AttemptRow] = field(default_factory=list)


@dataclass(slots=True)
class Try:
    """An attempt as it shall stand."""

    number: int
    attempt_id: str
    standing: str
    outcome: str | None
    said: AttemptFold
    is_new: bool
    record: Reported | None


@dataclass(slots=True)
class Decision:
    """What becomes of one report-mode operation."""

    call: Call
    facts: ToolFacts
    moves: list[Move]
    tries: list[Try]
    incidents: frozenset[str]


def folded(call: Call, known: Sequence[Fact], facts: ToolFacts) -> Fold:
    """The fold of some facts about a call, under its tool's rules."""
    has_ended = call.run is not None and call.run.has_ended
    return fold.fold(
        known,
        dedupes=facts.dedupes,
        harmless=facts.tool_class == "safe",
        closed=call.op.closed or has_ended,
    )


def is_report_alone(call: Call, before: Before, facts: ToolFacts) -> bool:
    """Whether the records are all there is: nobody claimed, released or settled the operation.

    A lapse is no evidence: what the sweeper made UNKNOWN still folds to INVOKED.
    """
    op = call.op
    if call.is_new:
        return True
    if op.mode != "report" or any(row.origin != "record" for row in before.tries):
        return False
    state = folded(call, before.facts, facts).state
    if op.state == state or (op.state, state) == (states.UNKNOWN, states.INVOKED):
        return True
    # Its run has just ended, and took with it what could have been tried again.
    return (op.state, state, op.closed) == (states.PENDING, states.FAILED, False)


def decide(call: Call, before: Before, facts: ToolFacts, now: datetime) -> Decision:
    """Moves, attempts and incidents that bring a row in step with the set of its records."""
    after = folded(call, [*before.facts, *(record.fact() for record in call.reported)], facts)
    tries = _tries(call, before, after, facts)
    columns = _columns(call, after, tries, facts, now)
    lease_end = now + timedelta(seconds=facts.lease_seconds)
    moves = _moves(call, after, columns, lease_end)
    return Decision(call, facts, moves, tries, after.incidents)


def _moves(call: Call, after: Fold, columns: dict[str, Any], lease_end: datetime) -> list[Move]:
    op = call.op
    told = [record.record_id for record in call.reported]
    data: dict[str, Any] = {"records": told[:_MOST_IDS]}
    if len(told) > _MOST_IDS:
        data["records_in_all"] = len(told)
    path = _path(op.state, after)
    if not path:
        event_type = "operation.closed" if "closed" in columns else "operation.reported"
        return [Move(op, event_type, None, data, columns)] if columns else []
    moves = []
    for event_type, to_state in path:
        written = dict(columns)
        if to_state == states.INVOKED:
            written["lease_expires_at"] = lease_end
        if to_state == states.FAILED:
            written["failure"] = after.failure
        moves.append(Move(op, event_type, to_state, data, written))
    return moves


def _path(state: str, after: Fold) -> tuple[tuple[str, str], ...]:
    if (state, after.state) == (states.PENDING, states.FAILED):
        if after.failure == "cancelled":
            return (("operation.refused", states.FAILED),)
        return _OPENED_AND_FAILED
    return _PATHS.get((state, after.state), ())


def _tries(call: Call, before: Before, after: Fold, facts: ToolFacts) -> list[Try]:
    """Every attempt that the records tell of, numbered in the order in which they were met."""
    rows = {row.attempt_id: row for row in before.tries}
    records: dict[str, Reported] = {}
    for record in call.reported:
        records.setdefault(record.attempt_id, record)
    live = _live_attempt(call, before, after)
    number = max((row.number for row in before.tries), default=0)
    found = []
    for attempt_id, said in after.attempts.items():
        row = rows.get(attempt_id)
        if row is None:
            number += 1
        kind = said.kind or fold.STARTED
        found.append(
            Try(
                number=number if row is None else row.number,
                attempt_id=attempt_id,
                standing="live" if attempt_id == live else _standing(kind, after, facts),
                outcome=_OUTCOMES[kind],
                said=said,
                is_new=row is None,
                record=records.get(attempt_id),
            )
        )
    return found


def _live_attempt(call: Call, before: Before, after: Fold) -> str | None:
    """Who holds the lease of an INVOKED operation: whoever held it, else the first that began."""
    if after.state != states.INVOKED or call.op.state == states.UNKNOWN:
        return None
    live = next((row.attempt_id for row in before.tries if row.standing == "live"), None)
    return live if live is not None else next(iter(after.attempts))


def _standing(kind: str, after: Fold, facts: ToolFacts) -> str:
    if after.state == states.COMMITTED and kind in (fold.IN_DOUBT, fold.STARTED):
        if facts.tool_class == "safe":
            return "no_effect"
        if facts.dedupes:
            return "covered"
    return _STANDINGS[kind]


def _columns(
    call: Call, after: Fold, tries: Sequence[Try], facts: ToolFacts, now: datetime
) -> dict[str, Any]:
    """What else changes on the row; nothing where nothing does."""
    op = call.op
    wanted: dict[str, Any] = {}
    if call.run is not None and call.run.has_ended and tries and op.state not in states.TERMINAL:
        wanted |= {"closed": True, "closed_as": "cancelled"}
    if len(tries) > op.attempts:
        wanted |= {"attempts": len(tries), "attempt_number": max(t.number for t in tries)}
    if after.state == states.COMMITTED and op.provider_ref is None:
        refs = [attempt.provider_ref for attempt in after.attempts.values()]
        wanted["provider_ref"] = next((ref for ref in refs if ref), None)
    if op.args_fingerprint is None:
        wanted |= _described(call, facts)
    statuses = [record for record in call.reported if record.effect_status]
    if statuses:
        wanted["effect_status"] = max(statuses, key=_when).effect_status
    if op.first_sent_at is None and any(attempt.sent for attempt in after.attempts.values()):
        wanted["first_sent_at"] = now
        if facts.retention_seconds is not None:
            wanted["key_expires_at"] = now + timedelta(seconds=facts.retention_seconds)
    return {name: value for name, value in wanted.items() if value != getattr(op, name)}


def _described(call: Call, facts: ToolFacts) -> dict[str, Any]:
    """An outcome told of the call without its args; a later record brings them."""
    for record in call.reported:
        if record.args_fingerprint is not None and record.code is None:
            amount_minor, currency = money.amount_of(facts, record.args)
            return {
                "args_fingerprint": record.args_fingerprint,
                "amount_minor": amount_minor,
                "currency": currency,
            }
    return {}


def _when(record: Reported) -> str:
    return record.occurred_at.isoformat() if record.occurred_at else ""
