"""The last word before bytes leave: the permit to send.

A lease alone cannot stop a slow process from sending after it ran out. So a fenced sender asks,
counts the span of its permit from before it asked, and sends nothing when refused or late.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from operations import attempts, catalogue, transitions
from operations.attempts import SEND_WITHIN_SECONDS, AttemptRow, digest_of
from operations.catalogue import ToolFacts
from operations.claims import Permit
from operations.errors import DomainError
from operations.rows import LockedOperation

#: Stop using a key this long before the provider may forget it: 1/24 of its life, an hour at most.
_MARGIN_SHARE: Final = 24
_LONGEST_MARGIN: Final = timedelta(hours=1)


def permit_for(
    cur: Any,
    op: LockedOperation,
    attempt: AttemptRow,
    send_token: str,
    now: datetime,
    *,
    actor: str,
) -> Permit | DomainError:
    """The permit of a live attempt whose lease is not over, for one token only."""
    if is_gate_shut(op, now):
        return DomainError("APPROVAL_REVOKED", "The approval is not valid any more: do not send.")
    if attempt.permit_at is not None and attempt.permit_until is not None:
        if not attempt.holds(send_token):
            return DomainError(
                "SEND_TOKEN_TAKEN", "Another process may be sending this: do not send."
            )
        # What is left, never a fresh span: the first answer may have been lost, not the time.
        left = milliseconds(attempt.permit_until - now)
        return Permit(attempt.permit_at, attempt.permit_until, left)
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    if is_key_expiring(op, facts, now):
        return DomainError(
            "KEY_EXPIRING", "The provider may forget the key before it answers: do not send."
        )
    return _give(cur, op, attempt, send_token, facts, now, actor)


def _give(
    cur: Any,
    op: LockedOperation,
    attempt: AttemptRow,
    send_token: str,
    facts: ToolFacts,
    now: datetime,
    actor: str,
) -> Permit:
    until = min(now + timedelta(seconds=SEND_WITHIN_SECONDS), attempt.lease_expires_at)
    emits_until = until + timedelta(seconds=facts.emission_seconds)
    if not attempt.fenced and attempt.emits_until is not None:
        # A permit fences nothing afterwards: its lease already let it send.
        emits_until = max(emits_until, attempt.emits_until)
    attempts.update(
        cur, attempt, send_token_digest=digest_of(send_token), permit_at=now, permit_until=until,
        sending_at=now, emits_until=emits_until,
    )  # fmt: skip
    columns: dict[str, Any] = {}
    if op.first_sent_at is None:
        columns["first_sent_at"] = now
    if op.key_expires_at is None and facts.retention_seconds is not None:
        columns["key_expires_at"] = now + timedelta(seconds=facts.retention_seconds)
    transitions.record_event(
        cur, op, "operation.sending", actor=actor,
        data={"attempt": attempt.number, "permit_until": until}, **columns,
    )  # fmt: skip
    return Permit(now, until, milliseconds(until - now))


def is_gate_shut(op: LockedOperation, now: datetime) -> bool:
    """Whether what approved the call is refused, revoked or out of date."""
    if op.gate in ("refused", "revoked"):
        return True
    return op.gate == "granted" and op.gate_expires_at is not None and op.gate_expires_at <= now


def is_key_expiring(op: LockedOperation, facts: ToolFacts, now: datetime) -> bool:
    """Whether the provider may forget our key before a send under it is answered."""
    closes_at = key_window_end(op, facts)
    return closes_at is not None and closes_at <= now


def key_window_end(op: LockedOperation, facts: ToolFacts) -> datetime | None:
    """Key expiry less its margin; None where nothing was sent yet or no key is kept."""
    if op.key_expires_at is None or facts.retention_seconds is None:
        return None
    margin = timedelta(seconds=facts.retention_seconds) / _MARGIN_SHARE
    return op.key_expires_at - min(margin, _LONGEST_MARGIN)


def milliseconds(span: timedelta) -> int:
    """Whole milliseconds, rounded down: a permit is never longer than it is."""
    return max(0, int(span / timedelta(milliseconds=1)))
