"""The rows of a new operation: itself, its first event, its args, what the model said.

One statement writes them all. Under a lock of the run's row it is preceded by the run; `FRESH`
does so for a group of claims, finds or makes their runs itself, and does nothing at all for a claim
that is not plainly the first of its kind: `operations.intents` then decides about it under locks.
"""

import json
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from operations import said
from operations.actors import Runtime
from operations.catalogue import STAMP
from operations.ids import uuid7
from operations.naming import Intent
from operations.rows import LockedOperation, in_scope, one_line
from operations.runs import RunRow

_NOT_YET: Final = datetime.min.replace(tzinfo=UTC)
_SAID: Final = {
    "op": "uuid", "environment": "text", "namespace": "text", "idem_key": "text",
    "derived_key": "text", "step": "int", "tool_call_id": "text", "position": "int",
    "tool": "text", "tool_version": "int", "tool_class": "text", "catalogue_version": "int",
    "args_fingerprint": "text", "goal": "text", "amount_minor": "bigint", "currency": "text",
    "executor": "text", "original": "uuid", "waits": "text", "actor": "text", "recorded": "jsonb",
    "args": "bytea", "reason": "bytea", "model_output": "bytea", "stamp": "text",
    "new_run": "uuid", "run_id": "text", "agent": "text", "agent_version": "text",
    "prompt_version": "text", "code_version": "text", "trigger": "text", "runtime": "uuid",
}  # fmt: skip
#: From `home`: rows of `said`, each with the `run` that it belongs to. Keys are taken in one order,
#: so that two groups that want the same keys do not wait for each other.
_BIRTH: Final = """fresh AS (
    INSERT INTO operations_operation
        (id, environment, namespace, idem_key, derived_key, run_id, step, tool_call_id, position,
         id_missing, tool, tool_version, tool_class, catalogue_version, args_fingerprint, goal,
         amount_minor, currency, executor, compensates_id, compensation_slot, mode, state, version,
         closed, waiting_on, gate, gate_used, attempt_number, attempts, flags, replays,
         created_at, updated_at)
    SELECT op, environment, namespace, idem_key, derived_key, run, step, tool_call_id, "position",
           false, tool, tool_version, tool_class, catalogue_version, args_fingerprint, goal,
           amount_minor, currency, executor, original, original, 'claim', 'PENDING', 1,
           false, waits, 'none', false, 0, 0,
           CASE WHEN EXISTS (
               SELECT FROM (SELECT o.tool_call_id, o.step FROM operations_operation o
                             WHERE o.run_id = home.run ORDER BY o.step DESC, o.id DESC LIMIT 200
                           ) recent
                WHERE recent.tool_call_id = home.tool_call_id AND recent.step <> home.step
           ) THEN '["id_reused"]'::jsonb ELSE '[]'::jsonb END,
           0, clock_timestamp(), clock_timestamp()
      FROM home ORDER BY environment, namespace, idem_key
    ON CONFLICT DO NOTHING
    RETURNING id, run_id, created_at, flags
), told AS (
    INSERT INTO operations_event
        (environment, namespace, operation_id, run_id, version, type, from_state, to_state, actor,
         at, data)
    SELECT home.environment, home.namespace, fresh.id, fresh.run_id, 1, 'operation.recorded', NULL,
           'PENDING', home.actor, fresh.created_at, home.recorded
      FROM fresh JOIN home ON home.op = fresh.id
), kept AS (
    INSERT INTO operations_payload (operation_id, kind, attempt_number, body, sha256)
    SELECT fresh.id, words.kind, 0, words.body, sha256(words.body)
      FROM fresh JOIN home ON home.op = fresh.id,
           LATERAL (VALUES ('args', home.args), ('reason', home.reason)) AS words(kind, body)
     WHERE words.body IS NOT NULL
), spoken AS (
    INSERT INTO operations_step (run_id, step, model_output, responded_at)
    SELECT fresh.run_id, home.step, home.model_output, fresh.created_at
      FROM fresh JOIN home ON home.op = fresh.id
     WHERE home.model_output IS NOT NULL
    ON CONFLICT (run_id, step) DO UPDATE
       SET model_output = coalesce(operations_step.model_output, excluded.model_output),
           responded_at = coalesce(operations_step.responded_at, excluded.responded_at)
)"""

_MAKE: Final = one_line(f"""
WITH {said.cte(_SAID)}, home AS (SELECT said.*, %(run)s::uuid AS run FROM said), {_BIRTH}
SELECT created_at, flags FROM fresh
""")  # noqa: S608

#: Everything that only the general path can judge keeps its row out of `home`: a budget, other
#: versions, another trigger, failures for the same goal, a record under a stand-in id, evidence in
#: the inbox, a newer catalogue. A group holds one claim of a run at most, for what they would do
#: to each other is not seen in one statement.
FRESH: Final = one_line(f"""
WITH {said.cte(_SAID)}, plain AS MATERIALIZED (
    SELECT said.* FROM said
     WHERE said.stamp = {STAMP} AND NOT EXISTS (
        SELECT FROM operations_inboxitem i
         WHERE {in_scope("i", "said.environment", "said.namespace")}
           AND i.idem_key = said.idem_key AND i.matched_at IS NULL)
), known AS MATERIALIZED (
    SELECT plain.op, r.* FROM plain, LATERAL (
        SELECT * FROM operations_run r
         WHERE {in_scope("r", "plain.environment", "plain.namespace")}
           AND r.run_id = plain.run_id LIMIT 1) AS r
), born AS (
    INSERT INTO operations_run
        (id, environment, namespace, run_id, agent, agent_version, prompt_version, code_version,
         trigger, status, runtime)
    SELECT new_run, environment, namespace, run_id, agent, agent_version, prompt_version,
           code_version, trigger, 'running', runtime
      FROM plain WHERE NOT EXISTS (SELECT FROM known WHERE known.op = plain.op)
     ORDER BY environment, namespace, run_id
    ON CONFLICT DO NOTHING
    RETURNING id
), home AS MATERIALIZED (
    SELECT plain.*, born.id AS run FROM plain JOIN born ON born.id = plain.new_run
    UNION ALL
    SELECT plain.*, r.id FROM plain JOIN known r ON r.op = plain.op
     WHERE r.budget_max_steps IS NULL AND r.budget_max_spend_minor IS NULL
       AND r.agent = plain.agent
       AND (plain.agent_version IS NULL OR r.agent_version = plain.agent_version)
       AND (plain.prompt_version IS NULL OR r.prompt_version = plain.prompt_version)
       AND (plain.code_version IS NULL OR r.code_version = plain.code_version)
       AND (plain.trigger IS NULL OR r.trigger = plain.trigger)
       AND NOT EXISTS (SELECT FROM operations_operation o
                        WHERE o.run_id = r.id AND o.step = plain.step AND o.id_missing)
       AND (plain.goal IS NULL OR NOT EXISTS (
            SELECT FROM operations_operation o
             WHERE o.run_id = r.id AND o.goal = plain.goal AND o.state = 'FAILED'))
), {_BIRTH}
SELECT id, run_id, created_at, flags FROM fresh
""")  # noqa: S608


def make(
    cur: Any, intent: Intent, run: RunRow, runtime: Runtime, original: UUID | None
) -> LockedOperation | None:
    """The new operation, in a run that is locked; None where its key was taken meanwhile."""
    birth = parameters(intent, runtime) | {"original": original, "waits": "runtime"}
    cur.execute(_MAKE, {"said": said.document([birth]), "run": run.id})
    row = cur.fetchone()
    if row is None:
        return None
    created_at, flags = row
    return as_recorded(intent, run.id, created_at, read_flags(flags), original, run)


def parameters(intent: Intent, runtime: Runtime) -> dict[str, Any]:
    """One row of what `FRESH` and the general path are told: one new operation."""
    request = intent.request
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
        "recorded": intent.recorded_facts(),
        "args": request.args_raw,
        "reason": request.reason.encode() if request.reason is not None else None,
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
