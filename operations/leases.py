"""What the live attempt asks while it works: the permit to send, and a longer lease.

A lease is granted by `granting`, and what its end means is in `lapses`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from operations import answers, attempts, catalogue, permits, rows, states
from operations.actors import Runtime
from operations.attempts import LONGEST_LEASE_SECONDS, AttemptRow, emits_until_of_lease
from operations.errors import DomainError, not_found
from operations.granting import grant
from operations.lapses import lapse
from operations.rows import LockedOperation

__all__ = ["grant", "heartbeat", "lapse", "sending"]


@dataclass(slots=True)
class _Live:
    """The live attempt of a locked operation, and the clock after the lock."""

    op: LockedOperation
    attempt: AttemptRow
    now: datetime


def sending(
    runtime: Runtime, idem_key: str, attempt_number: int, send_token: str
) -> dict[str, Any]:
    """The permit to send, or a refusal: every refusal means *do not send*."""

    def ask(cur: Any, live: _Live) -> dict[str, Any] | DomainError:
        permit = permits.permit_for(
            cur, live.op, live.attempt, send_token, live.now, actor=runtime.actor
        )
        if isinstance(permit, DomainError):
            return permit
        return {"send_within_ms": permit.within_ms}

    return _with_live(runtime, idem_key, attempt_number, ask)


def heartbeat(
    runtime: Runtime, idem_key: str, attempt_number: int, lease_seconds: int | None = None
) -> dict[str, Any]:
    """Prolong the lease from now, to an hour after it was granted at most. Not an event."""

    def prolong(cur: Any, live: _Live) -> dict[str, Any]:
        facts = catalogue.facts_of(cur, live.op.tool, live.op.tool_version)
        wanted = live.now + timedelta(seconds=lease_seconds or facts.lease_seconds)
        longest = live.attempt.granted_at + timedelta(seconds=LONGEST_LEASE_SECONDS)
        until = max(live.attempt.lease_expires_at, min(wanted, longest))
        columns: dict[str, Any] = {"lease_expires_at": until}
        if not live.attempt.fenced:
            columns["emits_until"] = emits_until_of_lease(until, facts)
        attempts.update(cur, live.attempt, **columns)
        rows.touch(cur, live.op, lease_expires_at=until, waiting_until=until)
        return {}

    return _with_live(runtime, idem_key, attempt_number, prolong)


def _with_live(
    runtime: Runtime,
    idem_key: str,
    attempt_number: int,
    work: Callable[[Any, _Live], dict[str, Any] | DomainError],
) -> dict[str, Any]:
    """Lock the operation and give its live attempt to `work`, or refuse. Answers like outcome."""
    with transaction.atomic(), rows.hot_cursor() as cur:
        op = rows.lock(cur, scope=runtime.scope, idem_key=idem_key)
        if op is None:
            raise not_found()
        tries = attempts.load(cur, op)
        lapse(cur, op, tries, actor=runtime.actor)
        found = _live(op, tries, attempt_number)
        done = found if isinstance(found, DomainError) else work(cur, found)
        if not isinstance(done, DomainError):
            operation = answers.document(cur, op)
            return {
                "operation": operation,
                "superseded": False,
                "lease_expires_at": answers.instant(op.lease_expires_at),
                **done,
            }
    # Raised after the commit: a lapse that was met on the way stays noted.
    raise done


def _live(op: LockedOperation, tries: attempts.Tries, attempt_number: int) -> _Live | DomainError:
    if attempt_number > op.attempt_number:
        return never_issued(op)
    if op.state == states.COMMITTED:
        return DomainError("ALREADY_COMMITTED", idem_key=op.idem_key)
    attempt = tries.live
    if op.state != states.INVOKED or attempt is None or attempt.number != attempt_number:
        return DomainError("LEASE_LOST", idem_key=op.idem_key)
    return _Live(op, attempt, tries.now)


def never_issued(op: LockedOperation) -> DomainError:
    """The attempt number is higher than any that was granted."""
    return DomainError(
        "VALIDATION_ERROR",
        f"Attempt numbers go up to {op.attempt_number} so far.",
        pointer="/attempt_number",
        idem_key=op.idem_key,
    )
