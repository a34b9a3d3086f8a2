"""What a batch writes beside records and moves: attempts, payloads, steps, quiet columns."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from operations import arrays, states
from operations.actors import Runtime
from operations.attempts import emits_until_of_lease
from operations.reports.births import Call
from operations.reports.deciding import Decision, Try
from operations.reports.reported import Reported
from operations.reports.runs import RunRow

_OPEN_TRIES: Final = """
INSERT INTO operations_attempt
    (operation_id, number, attempt_id, origin, layer, worker, runtime, standing, permanent, fenced,
     granted_at, lease_seconds, lease_expires_at, emits_until, ended_at, outcome, provider_ref,
     result_sha256, error_type, http_status, error_replayed)
SELECT op, number, attempt_id, 'record', layer, worker, %(runtime)s, standing, permanent, false,
       %(now)s, lease, %(now)s + lease * interval '1 second', emits_until,
       CASE WHEN standing <> 'live' THEN %(now)s END, outcome, provider_ref, result, error_type,
       http_status, error_replayed
FROM unnest(%(op)s::uuid[], %(number)s::int[], %(attempt_id)s::text[], %(layer)s::text[],
            %(worker)s::text[], %(standing)s::text[], %(permanent)s::bool[], %(lease)s::int[],
            %(emits_until)s::timestamptz[], %(outcome)s::text[], %(provider_ref)s::text[],
            %(result)s::bytea[], %(error_type)s::text[], %(http_status)s::int[],
            %(error_replayed)s::bool[])
    AS said(op, number, attempt_id, layer, worker, standing, permanent, lease, emits_until, outcome,
            provider_ref, result, error_type, http_status, error_replayed)"""
_CHANGE_TRIES: Final = """
UPDATE operations_attempt a
   SET standing = said.standing, outcome = coalesce(said.outcome, a.outcome),
       permanent = said.permanent, provider_ref = coalesce(a.provider_ref, said.provider_ref),
       result_sha256 = coalesce(a.result_sha256, said.result),
       ended_at = CASE WHEN said.standing <> 'live' THEN coalesce(a.ended_at, %(now)s) END,
       error_type = coalesce(said.error_type, a.error_type),
       http_status = coalesce(said.http_status, a.http_status)
  FROM unnest(%(op)s::uuid[], %(number)s::int[], %(standing)s::text[], %(permanent)s::bool[],
              %(outcome)s::text[], %(provider_ref)s::text[], %(result)s::bytea[],
              %(error_type)s::text[], %(http_status)s::int[])
       AS said(op, number, standing, permanent, outcome, provider_ref, result, error_type,
               http_status)
 WHERE a.operation_id = said.op AND a.number = said.number"""
_PAYLOADS: Final = """
INSERT INTO operations_payload (operation_id, kind, attempt_number, body, sha256)
SELECT said.* FROM unnest(%s::uuid[], %s::text[], %s::int[], %s::bytea[], %s::bytea[]) AS said"""
_STEPS: Final = """
INSERT INTO operations_step (run_id, step, model_output, responded_at, completed_at)
SELECT run, step, model_output, CASE WHEN model_output IS NOT NULL THEN clock_timestamp() END,
       CASE WHEN completed THEN clock_timestamp() END
FROM unnest(%s::uuid[], %s::int[], %s::bytea[], %s::bool[])
    AS said(run, step, model_output, completed)
ORDER BY run, step
ON CONFLICT (run_id, step) DO UPDATE
   SET model_output = coalesce(operations_step.model_output, excluded.model_output),
       responded_at = coalesce(operations_step.responded_at, excluded.responded_at),
       completed_at = coalesce(operations_step.completed_at, excluded.completed_at)"""
_QUIET: Final = """
UPDATE operations_operation o SET replays = said.replays, flags = said.flags
  FROM unnest(%s::uuid[], %s::int[], %s::jsonb[]) AS said(id, replays, flags)
 WHERE o.id = said.id"""
DELIVERED: Final = "delivered"


def write_tries(cur: Any, decisions: Iterable[Decision], runtime: Runtime, now: datetime) -> None:
    """Insert the attempts that are new, and bring the known ones in step with their records."""
    pairs = [(decision, one) for decision in decisions for one in decision.tries]
    # A live attempt makes way before another takes its place: one is live at a time.
    if changed := [pair for pair in pairs if not pair[1].is_new]:
        cur.execute(_CHANGE_TRIES, {"now": now, **_common(changed)})
    if opened := [pair for pair in pairs if pair[1].is_new]:
        cur.execute(
            _OPEN_TRIES,
            {"now": now, "runtime": runtime.key_id, **_common(opened), **_birth(opened, now)},
        )


def _common(pairs: Sequence[tuple[Decision, Try]]) -> dict[str, str]:
    errors = [_error(one) for _, one in pairs]
    return {
        "op": arrays.plain(decision.call.op.id for decision, _ in pairs),
        "number": arrays.plain(one.number for _, one in pairs),
        "standing": arrays.texts(one.standing for _, one in pairs),
        "permanent": arrays.plain(one.said.permanent for _, one in pairs),
        "outcome": arrays.texts(one.outcome for _, one in pairs),
        "provider_ref": arrays.texts(one.said.provider_ref for _, one in pairs),
        "result": arrays.binaries(one.said.result_sha256 for _, one in pairs),
        "error_type": arrays.texts(error[0] for error in errors),
        "http_status": arrays.plain(error[1] for error in errors),
    }


def _birth(pairs: Sequence[tuple[Decision, Try]], now: datetime) -> dict[str, str]:
    return {
        "attempt_id": arrays.texts(one.attempt_id for _, one in pairs),
        "layer": arrays.texts(one.record.layer if one.record else "" for _, one in pairs),
        "worker": arrays.texts(one.record.worker if one.record else "" for _, one in pairs),
        "lease": arrays.plain(decision.facts.lease_seconds for decision, _ in pairs),
        "emits_until": arrays.moments(_emits_until(decision, now) for decision, _ in pairs),
        "error_replayed": arrays.plain(_error(one)[2] for _, one in pairs),
    }


def _emits_until(decision: Decision, now: datetime) -> datetime:
    lease_end = now + timedelta(seconds=decision.facts.lease_seconds)
    return emits_until_of_lease(lease_end, decision.facts)


def _error(one: Try) -> tuple[str | None, int | None, bool]:
    """Type, HTTP status and `replayed` of an error that may be anything."""
    error = one.record.error if one.record is not None else None
    if not isinstance(error, dict):
        return None, None, False
    kind, status = error.get("type"), error.get("http_status")
    is_kind = isinstance(kind, str) and "\0" not in kind
    is_status = type(status) is int and 0 <= status <= 999
    return kind if is_kind else None, status if is_status else None, error.get("replayed") is True


def write_payloads(cur: Any, decisions: Iterable[Decision]) -> None:
    """Args as first seen, the result that committed, errors: exact bytes, erasable."""
    rows = [
        (decision.call.op.id, kind, number, body)
        for decision in decisions
        for kind, number, body in _bodies(decision)
    ]
    if rows:
        cur.execute(
            _PAYLOADS,
            (
                arrays.plain(row[0] for row in rows),
                arrays.texts(row[1] for row in rows),
                arrays.plain(row[2] for row in rows),
                arrays.binaries(row[3] for row in rows),
                arrays.binaries(sha256(row[3]).digest() for row in rows),
            ),
        )


def _bodies(decision: Decision) -> list[tuple[str, int, bytes]]:
    found: list[tuple[str, int, bytes]] = []
    call = decision.call
    numbers = {one.attempt_id: one.number for one in decision.tries}
    wants_args = call.is_new or any("args_fingerprint" in move.columns for move in decision.moves)
    wants_result = any(move.to_state == states.COMMITTED for move in decision.moves)
    for record in call.reported:
        number = numbers.get(record.attempt_id, 0)
        if wants_args and record.args_fingerprint == call.op.args_fingerprint is not None:
            found.append(("args", 0, args_of(record)))
            wants_args = False
        if record.error is not None:
            found.append(("error", number, record.raw("error")))
        if wants_result and record.type == "TOOL_COMMITTED" and record.result_sha256 is not None:
            found.append(("result", number, record.raw("result")))
            wants_result = False
    return found


def args_of(record: Reported) -> bytes:
    """The exact text of a record's args, from `args_raw` or cut out of its body."""
    return record.args_raw or record.raw("args")


def write_steps(cur: Any, batch: Iterable[Reported], runs: dict[str, RunRow]) -> None:
    """What the model said at a step, and that a step is complete; what was said first stands."""
    outputs: dict[tuple[Any, int], bytes | None] = {}
    completed: set[tuple[Any, int]] = set()
    for record in batch:
        if record.run is None or record.step is None:
            continue
        key = (runs[record.run.id].pk, record.step)
        output = record.raw("model_output") if record.has_model_output else None
        if record.type in ("LLM_RESPONDED", "STEP_COMPLETED") or output is not None:
            outputs[key] = outputs.get(key) or output
        if record.type == "STEP_COMPLETED":
            completed.add(key)
    if outputs:
        cur.execute(
            _STEPS,
            (
                arrays.plain(run for run, _ in outputs),
                arrays.plain(step for _, step in outputs),
                arrays.binaries(outputs.values()),
                arrays.plain(key in completed for key in outputs),
            ),
        )


def write_quiet(cur: Any, calls: Iterable[Call]) -> None:
    """Replays counted and results delivered: shown, but no event and no new version."""
    changed = []
    for call in calls:
        replays = sum(
            record.replayed and record.type == "TOOL_COMMITTED" for record in call.reported
        )
        delivered = any(record.type == "RESULT_DELIVERED" for record in call.reported)
        flags = call.op.flags
        if delivered and DELIVERED not in flags:
            flags = [*flags, DELIVERED]
        if replays or flags is not call.op.flags:
            changed.append((call.op.id, call.op.replays + replays, flags))
    if changed:
        cur.execute(
            _QUIET,
            (
                arrays.plain(row[0] for row in changed),
                arrays.plain(row[1] for row in changed),
                arrays.documents(row[2] for row in changed),
            ),
        )
