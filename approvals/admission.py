"""The one door: record the intent, then authorise it, or say what it waits for.

A plain first call that nobody need approve takes one round trip, alone or in a group. Everything
else is decided under locks, in the order of the contract: key, fingerprint, state, attempts, run
trigger, goal, budget, gate.
"""

from typing import Any

from django.db import IntegrityError, transaction

from approvals import gate, policies
from operations import (
    answers,
    attempts,
    budgets,
    catalogue,
    early_evidence,
    intents,
    leases,
    naming,
    permits,
    replays,
    rows,
    runs,
    settling,
    states,
    sweeps,
)
from operations.actors import Runtime
from operations.attempts import Tries
from operations.claims import Answer, ClaimRequest, Grant
from operations.errors import DomainError, of_constraint
from operations.first_claims import PlainClaim
from operations.intents import Recorded
from operations.ledger import soundness
from operations.naming import Intent
from operations.rows import LockedOperation
from operations.together import Group


def admit(request: ClaimRequest, runtime: Runtime) -> Answer:
    """Answer a claim: 201 execute, 200 replay, 202 wait; DomainError for every refusal.

    What was found out on the way (an incident, a lapse, an end) is committed before a refusal is
    raised. Nothing is answered while the log is not the one that was published (503).
    """
    intent = _describe(request, runtime)
    if _may_be_plain(intent):
        one = PlainClaim(intent, runtime)
        Group(one).carry_out()
        if one.answer is not None:
            return one.answer
    with rows.hot_cursor() as cur:
        if not intent.fingerprint_is_claimed():
            raise _wrong_fingerprint(cur, intent, runtime)
        try:
            done = _admit_under_lock(cur, request, runtime)
        except IntegrityError as error:
            # Two claims met on a named constraint (a trigger, a compensation): the second look
            # finds what the first one made.
            if of_constraint(error) is None:
                raise
            done = _admit_under_lock(cur, request, runtime)
    if isinstance(done, DomainError):
        raise done
    return done


def plain(request: ClaimRequest, runtime: Runtime) -> PlainClaim | None:
    """The claim as a member of a group (`operations.together`); None where it cannot be plain.

    Refused as by `admit` while the log is not the one that was published.
    """
    intent = _describe(request, runtime)
    return PlainClaim(intent, runtime) if _may_be_plain(intent) else None


def _describe(request: ClaimRequest, runtime: Runtime) -> Intent:
    """What every claim passes first, alone or in a group."""
    soundness.check_claims()
    return naming.describe(request, runtime, catalogue.known())


def _wrong_fingerprint(cur: Any, intent: Intent, runtime: Runtime) -> DomainError:
    with transaction.atomic():
        collision = intents.refuse_collision(cur, intent, runtime)
    return collision or DomainError(
        "FINGERPRINT_MISMATCH",
        f"The arguments as received have the fingerprint {intent.args_fingerprint}.",
        pointer="/args_fingerprint",
    )


def _may_be_plain(intent: Intent) -> bool:
    request = intent.request
    return (
        # Repeated after a lost connection it gives the same answer, by the sender's attempt id.
        request.attempt_id is not None
        and intent.fingerprint_is_claimed()
        and request.executor == "self"
        and request.compensates is None
        and not request.has_budget
        and "~edit" not in request.tool_call_id
        and policies.rule_for(intent, request.args).quorum == 0
    )


def _admit_under_lock(cur: Any, request: ClaimRequest, runtime: Runtime) -> Answer | DomainError:
    with transaction.atomic():
        intent = naming.describe(request, runtime, catalogue.current(cur))
        replayed = _replay(cur, intent, runtime)
        if replayed is not None:
            return replayed
        recorded = intents.record_intent(cur, intent, runtime)
        if isinstance(recorded, DomainError):
            return recorded
        op = recorded.op
        tries = attempts.load(cur, op)
        gated = op.gate == "none" and policies.rule_for(intent, request.args).quorum > 0
        early_evidence.take_inbox(cur, op, tries, actor=runtime.actor, gated=gated)
        if recorded.is_new:
            early_evidence.doubt_by_stand_in(cur, op, tries, actor=runtime.actor)
        leases.lapse(cur, op, tries, actor=runtime.actor)
        sweeps.close_window(cur, op, tries, actor=runtime.actor)
        if op.state == states.UNKNOWN and op.tool_class == "safe" and not op.closed:
            settling.release_if_allowed(cur, op, tries, reason="safe", actor=runtime.actor)
        return _by_state(cur, intent, recorded, tries, runtime)


def _replay(cur: Any, intent: Intent, runtime: Runtime) -> Answer | None:
    """COMMITTED never changes, so it is answered without a lock, and counted."""
    op = rows.read(cur, scope=intent.scope, idem_key=intent.idem_key)
    if op is None or op.state != states.COMMITTED or not intents.is_same_call(cur, intent, op):
        return None
    return _replay_answer(cur, op, runtime)


def _replay_answer(cur: Any, op: LockedOperation, runtime: Runtime) -> Answer:
    rows.count_replay(cur, op)
    replays.alarm_if_too_many(cur, op, actor=runtime.actor)
    return answers.replay(op, answers.document(cur, op))


def _by_state(
    cur: Any, intent: Intent, recorded: Recorded, tries: Tries, runtime: Runtime
) -> Answer | DomainError:
    op = recorded.op
    if op.state == states.COMMITTED:
        return _replay_answer(cur, op, runtime)
    if op.state == states.FAILED:
        return gate.previously_failed(cur, op)
    if op.state == states.UNKNOWN:
        return answers.wait(op, answers.document(cur, op), "await_reconciliation", tries.now)
    if op.state == states.INVOKED:
        return _in_flight(cur, intent, op, tries, runtime)
    return _pending(cur, intent, recorded, tries, runtime)


def _in_flight(
    cur: Any, intent: Intent, op: LockedOperation, tries: Tries, runtime: Runtime
) -> Answer | DomainError:
    """The same sender gets its answer again; anybody else waits for the lease."""
    attempt = tries.live
    request = intent.request
    mine = (
        attempt is not None
        and request.attempt_id is not None
        and attempt.attempt_id == request.attempt_id
        and attempt.runtime == runtime.key_id
    )
    if attempt is None or not mine:
        return _busy(op, tries)
    if attempt.send_token_digest is None and not request.is_fenced and attempt.fenced:
        # A second process that promises nothing holds this attempt now: the fence is gone.
        attempts.unfence(cur, attempt, intent.facts)
    permit = None
    if request.send_token is not None:
        asked = permits.permit_for(
            cur, op, attempt, request.send_token, tries.now, actor=runtime.actor
        )
        if isinstance(asked, DomainError):
            return _busy(op, tries) if asked.code == "SEND_TOKEN_TAKEN" else asked
        permit = asked
    elif attempt.send_token_digest is not None and not request.is_fenced:
        return _busy(op, tries)
    before = op.first_sent_at
    granted = Grant(
        attempt_number=attempt.number,
        attempt_id=attempt.attempt_id,
        lease_expires_at=attempt.lease_expires_at,
        first_sent_at=before if before is not None and before < attempt.granted_at else None,
        permit=permit,
    )
    return gate.execute_answer(cur, op, intent, granted, gate.token_of(cur, op, attempt))


def _busy(op: LockedOperation, tries: Tries) -> DomainError:
    return DomainError(
        "ATTEMPT_IN_FLIGHT",
        f"Attempt {op.attempt_number} holds the lease.",
        retry_after_seconds=min(
            answers.ASK_AGAIN_SECONDS, answers.retry_after(op.lease_expires_at, tries.now)
        ),
        idem_key=op.idem_key,
        attempt_number=op.attempt_number,
        lease_expires_at=answers.instant(op.lease_expires_at),
    )


def _pending(
    cur: Any, intent: Intent, recorded: Recorded, tries: Tries, runtime: Runtime
) -> Answer | DomainError:
    op, run, request = recorded.op, recorded.run, intent.request
    if op.compensates_id is not None:
        waits = _original_is_open(cur, op, tries, runtime)
        if waits is not None:
            return waits
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    refusal = (
        budgets.check_attempts(cur, op, tries, facts, actor=runtime.actor)
        or runs.check_trigger(cur, run, request, runtime.scope)
        or budgets.check_goal(cur, op, facts, actor=runtime.actor)
    )
    if refusal is None:
        runs.adopt(cur, run, request)
        refusal = budgets.check_currency(op, run, facts) or budgets.check_budget(
            cur, op, run, actor=runtime.actor
        )
    if refusal is not None:
        return _undo_if_new(recorded, refusal)
    return gate.pass_or_wait(cur, op, intent, tries, runtime)


def _undo_if_new(recorded: Recorded, refusal: DomainError) -> DomainError:
    """A claim that is wrong in itself leaves no operation behind; one beyond its bounds does."""
    if recorded.is_new and recorded.op.state == states.PENDING:
        transaction.set_rollback(True)
    return refusal


def _original_is_open(
    cur: Any, op: LockedOperation, tries: Tries, runtime: Runtime
) -> Answer | DomainError | None:
    """A compensation may run once its original is COMMITTED; None means that it is."""
    original = rows.read(cur, op_id=op.compensates_id)
    if original is None or original.state == states.COMMITTED:
        return None
    if original.state == states.FAILED:
        settling.cancel_compensation(cur, op, original, actor=runtime.actor)
        return gate.previously_failed(cur, op) if op.state == states.FAILED else None
    if op.waiting_on != "look":
        rows.touch(cur, op, waiting_on="look", waiting_until=None)
    return answers.wait(op, answers.document(cur, op), "await_reconciliation", tries.now)
