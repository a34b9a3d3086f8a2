"""The rows of a new operation: itself, its first event, its args, what the model said.

One statement writes them all. Under a lock of the run's row it is preceded by the run; on the
fast path of a claim it finds or makes the run itself, and does nothing at all where the claim is
not plainly the first of its kind: `operations.intents` then decides under locks.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import psycopg

from operations.actors import Runtime
from operations.catalogue import STAMP
from operations.granting import GRANT
from operations.ids import uuid7
from operations.naming import Intent
from operations.rows import LockedOperation, one_line
from operations.runs import RunRow

_NOT_YET: Final = datetime.min.replace(tzinfo=UTC)
_BIRTH: Final = """fresh AS (
    INSERT INTO operations_operation
        (id, environment, namespace, idem_key, derived_key, run_id, step, tool_call_id, position,
         id_missing, tool, tool_version, tool_class, catalogue_version, args_fingerprint, goal,
         amount_minor, currency, executor, compensates_id, compensation_slot, mode, state, version,
         closed, waiting_on, gate, gate_used, attempt_number, attempts, flags, replays,
         created_at, updated_at)
    SELECT %(op)s, %(environment)s, %(namespace)s, %(idem_key)s, %(derived_key)s, home.id,
           %(step)s, %(tool_call_id)s, %(position)s, false, %(tool)s, %(tool_version)s,
           %(tool_class)s, %(catalogue_version)s, %(args_fingerprint)s, %(goal)s,
           %(amount_minor)s, %(currency)s, %(executor)s, %(original)s, %(original)s, 'claim',
           'PENDING', 1, false, %(waits)s, 'none', false, 0, 0,
           CASE WHEN EXISTS (
               SELECT FROM (SELECT tool_call_id, step FROM operations_operation
                             WHERE run_id = home.id ORDER BY step DESC, id DESC LIMIT 200) recent
                WHERE recent.tool_call_id = %(tool_call_id)s AND recent.step <> %(step)s
           ) THEN '["id_reused"]'::jsonb ELSE '[]'::jsonb END,
           0, clock_timestamp(), clock_timestamp()
      FROM home
    ON CONFLICT DO NOTHING
    RETURNING id, run_id, created_at, flags
), told AS (
    INSERT INTO operations_event
        (environment, namespace, operation_id, run_id, version, type, from_state, to_state, actor,
         at, data)
    SELECT %(environment)s, %(namespace)s, id, run_id, 1, 'operation.recorded', NULL, 'PENDING',
           %(actor)s, created_at, %(recorded)s::jsonb
      FROM fresh
), kept AS (
    INSERT INTO operations_payload (operation_id, kind, attempt_number, body, sha256)
    SELECT fresh.id, said.kind, 0, said.body, said.sha256
      FROM fresh, (VALUES ('args', %(args)s::bytea, %(args_sha256)s::bytea),
                          ('reason', %(reason)s::bytea, %(reason_sha256)s::bytea))
                  AS said(kind, body, sha256)
     WHERE said.body IS NOT NULL
), spoken AS (
    INSERT INTO operations_step (run_id, step, model_output, responded_at)
    SELECT run_id, %(step)s, %(model_output)s::bytea, created_at FROM fresh
     WHERE %(model_output)s::bytea IS NOT NULL
    ON CONFLICT (run_id, step) DO UPDATE
       SET model_output = coalesce(operations_step.model_output, excluded.model_output),
           responded_at = coalesce(operations_step.responded_at, excluded.responded_at)
)"""

_MAKE: Final = one_line(f"""
WITH home AS (SELECT %(run)s::uuid AS id), {_BIRTH}
SELECT created_at, flags FROM fresh
""")  # noqa: S608

#: Everything that only the general path can judge keeps `home` empty: a budget, other versions,
#: another trigger, failures for the same goal, a record under a stand-in id, evidence in the
#: inbox, a newer catalogue.
FRESH: Final = one_line(f"""
WITH known AS (
    SELECT * FROM operations_run
     WHERE environment = %(environment)s AND namespace = %(namespace)s AND run_id = %(run_id)s
), plain AS (
    SELECT {STAMP} = %(stamp)s AND NOT EXISTS (
        SELECT FROM operations_inboxitem
         WHERE environment = %(environment)s AND namespace = %(namespace)s
           AND idem_key = %(idem_key)s AND matched_at IS NULL) AS yes
), born AS (
    INSERT INTO operations_run
        (id, environment, namespace, run_id, agent, agent_version, prompt_version, code_version,
         trigger, status, runtime)
    SELECT %(new_run)s, %(environment)s, %(namespace)s, %(run_id)s, %(agent)s, %(agent_version)s,
           %(prompt_version)s, %(code_version)s, %(trigger)s, 'running', %(runtime)s
      FROM plain WHERE plain.yes AND NOT EXISTS (SELECT FROM known)
    ON CONFLICT DO NOTHING
    RETURNING id
), home AS (
    SELECT id FROM born
    UNION ALL
    SELECT r.id FROM known r, plain
     WHERE plain.yes AND r.budget_max_steps IS NULL AND r.budget_max_spend_minor IS NULL
       AND r.agent = %(agent)s
       AND (%(agent_version)s::text IS NULL OR r.agent_version = %(agent_version)s)
       AND (%(prompt_version)s::text IS NULL OR r.prompt_version = %(prompt_version)s)
       AND (%(code_version)s::text IS NULL OR r.code_version = %(code_version)s)
       AND (%(trigger)s::text IS NULL OR r.trigger = %(trigger)s)
       AND NOT EXISTS (SELECT FROM operations_operation o
                        WHERE o.run_id = r.id AND o.step = %(step)s AND o.id_missing)
       AND (%(goal)s::text IS NULL OR NOT EXISTS (
            SELECT FROM operations_operation o
             WHERE o.run_id = r.id AND o.goal = %(goal)s AND o.state = 'FAILED'))
), {_BIRTH}
SELECT run_id, created_at, flags FROM fresh
""")  # noqa: S608


def make(
    cur: Any, intent: Intent, run: RunRow, runtime: Runtime, original: UUID | None
) -> LockedOperation | None:
    """The new operation, in a run that is locked; None where its key was taken meanwhile."""
    bound = parameters(intent, runtime) | {
        "run": run.id,
        "original": original,
        "waits": "runtime",
    }
    cur.execute(_MAKE, bound)
    row = cur.fetchone()
    if row is None:
        return None
    created_at, flags = row
    return as_recorded(intent, run.id, created_at, read_flags(flags), original, run)


def make_and_grant(
    cur: Any, birth: Mapping[str, Any], grant: Mapping[str, Any]
) -> tuple[tuple[UUID, datetime, list[str]] | None, tuple[Any, ...] | None]:
    """Record and grant in one round trip: what `FRESH` made and what `GRANT` gave, or None.

    Where `FRESH` makes nothing there is no row for `GRANT` to move, so that nothing is done.
    """
    connection = cur.connection
    with psycopg.Cursor(connection) as second:
        with connection.pipeline():
            cur.execute(FRESH, birth)
            second.execute(GRANT, grant)
        # Read after the pipeline is through: reading inside it would wait twice more.
        made, granted = cur.fetchone(), second.fetchone()
    if made is None:
        return None, None
    run_pk, created_at, flags = made
    return (run_pk, created_at, read_flags(flags)), granted


def parameters(intent: Intent, runtime: Runtime) -> dict[str, Any]:
    """What `FRESH` and the general path bind."""
    request = intent.request
    reason = request.reason.encode() if request.reason is not None else None
    return {
        "op": intent.id,
        "environment": intent.environment,
        "namespace": intent.namespace,
        "idem_key": intent.idem_key,
        "derived_key": intent.derived_key,
        "step": request.step,
        "tool_call_id": intent.tool_call_id,
        "position": request.position,
        "tool": request.tool,
        "tool_version": intent.facts.version,
        "tool_class": intent.facts.tool_class,
        "catalogue_version": intent.catalogue.version,
        "args_fingerprint": intent.args_fingerprint,
        "goal": request.goal,
        "amount_minor": intent.amount_minor,
        "currency": intent.currency,
        "executor": request.executor,
        "original": None,
        "actor": runtime.actor,
        "recorded": json.dumps(intent.recorded_facts()),
        "args": request.args_raw,
        "args_sha256": sha256(request.args_raw).digest(),
        "reason": reason,
        "reason_sha256": sha256(reason).digest() if reason is not None else None,
        "model_output": request.model_output,
        # `FRESH` is granted in the same trip, so it waits for nothing but its lease.
        "waits": "lease",
        "stamp": intent.catalogue.stamp,
        "new_run": uuid7(),
        "run_id": request.run_id,
        "agent": request.agent,
        "agent_version": request.agent_version,
        "prompt_version": request.prompt_version,
        "code_version": request.code_version,
        "trigger": request.trigger,
        "runtime": runtime.key_id,
    }


def as_recorded(
    intent: Intent,
    run_pk: UUID,
    created_at: datetime | None,
    flags: list[str],
    original: UUID | None = None,
    run: RunRow | None = None,
) -> LockedOperation:
    """The row just written, without reading it back: nobody else can have seen it yet.

    `created_at` None: it is about to be written, and its time is filled in then.
    """
    at = created_at or _NOT_YET
    request = intent.request
    first = run or request
    return LockedOperation(
        id=intent.id,
        environment=intent.environment,
        namespace=intent.namespace,
        idem_key=intent.idem_key,
        derived_key=intent.derived_key,
        run_pk=run_pk,
        step=request.step,
        tool_call_id=intent.tool_call_id,
        position=request.position,
        id_missing=False,
        tool=request.tool,
        tool_version=intent.facts.version,
        tool_class=intent.facts.tool_class,
        catalogue_version=intent.catalogue.version,
        args_fingerprint=intent.args_fingerprint,
        goal=request.goal,
        amount_minor=intent.amount_minor,
        currency=intent.currency,
        executor=request.executor,
        compensates_id=original,
        compensation_slot=original,
        superseded_by_id=None,
        mode="claim",
        state="PENDING",
        version=1,
        failure=None,
        closed=False,
        closed_as=None,
        waiting_on="runtime",
        waiting_until=None,
        release_reason=None,
        gate="none",
        gate_ref=None,
        gate_expires_at=None,
        gate_used=False,
        attempt_number=0,
        attempts=0,
        lease_expires_at=None,
        first_sent_at=None,
        key_expires_at=None,
        provider_ref=None,
        effect_status=None,
        verdict=None,
        flags=flags,
        replays=0,
        created_at=at,
        updated_at=at,
        run_id=request.run_id,
        agent=first.agent,
        agent_version=first.agent_version,
        prompt_version=first.prompt_version,
        code_version=first.code_version,
    )


def read_flags(flags: Any) -> list[str]:
    """The connection may give jsonb as text."""
    return list(json.loads(flags)) if isinstance(flags, str | bytes) else list(flags)
