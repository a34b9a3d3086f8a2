"""Operations that a batch tells of first: their rows and their first events, set-based."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from operations import arrays, money, states
from operations.actors import Runtime
from operations.catalogue import Catalogue
from operations.reports.reported import Reported
from operations.reports.runs import RunRow
from operations.rows import LockedOperation

_UNBORN: Final = datetime.min.replace(tzinfo=UTC)
_MAKE: Final = """
WITH fresh AS (
    INSERT INTO operations_operation
        (id, environment, namespace, idem_key, derived_key, run_id, step, tool_call_id, position,
         id_missing, tool, tool_version, tool_class, catalogue_version, args_fingerprint, goal,
         amount_minor, currency, executor, mode, state, version, closed, waiting_on,
         gate, gate_used, attempt_number, attempts, flags, replays, provider_ref, created_at,
         updated_at)
    SELECT id, %(environment)s, %(namespace)s, idem_key, derived_key, run, step, call, position,
           id_missing, tool, tool_version, tool_class, %(catalogue)s, fingerprint, goal, amount,
           currency, 'self', 'report', 'PENDING', 1, false, 'lease', 'none', false, 0, 0, flags,
           0, provider_ref, clock_timestamp(), clock_timestamp()
    FROM unnest(%(id)s::uuid[], %(idem_key)s::text[], %(derived_key)s::text[], %(run)s::uuid[],
                %(step)s::int[], %(call)s::text[], %(position)s::int[], %(id_missing)s::bool[],
                %(tool)s::text[], %(tool_version)s::int[], %(tool_class)s::text[],
                %(fingerprint)s::text[], %(goal)s::text[], %(amount)s::bigint[],
                %(currency)s::text[], %(flags)s::jsonb[], %(provider_ref)s::text[])
        AS said(id, idem_key, derived_key, run, step, call, position, id_missing, tool,
                tool_version, tool_class, fingerprint, goal, amount, currency, flags, provider_ref)
    ORDER BY idem_key
    ON CONFLICT DO NOTHING
    RETURNING id, environment, namespace, run_id, created_at, idem_key, args_fingerprint, tool
), told AS (
    INSERT INTO operations_event
        (environment, namespace, operation_id, run_id, version, type, from_state, to_state, actor,
         at, data)
    SELECT environment, namespace, id, run_id, 1, 'operation.recorded', NULL, 'PENDING', %(actor)s,
           created_at, jsonb_build_object('idem_key', idem_key, 'tool', tool,
                                          'args_fingerprint', args_fingerprint, 'mode', 'report')
      FROM fresh ORDER BY id
)
SELECT id, created_at FROM fresh"""
#: A row that is born waiting for its lease is entered among what stands open when it first moves,
#: and never where that commits it, as most newborn calls of a batch do (see `guards.sql`).
_NOT_ENTERED: Final = "lease"
_ENTER: Final = """
UPDATE operations_operation SET waiting_on = 'runtime' WHERE id = ANY(%s::uuid[])"""
_REUSED: Final = """
SELECT DISTINCT run_id, tool_call_id, step FROM operations_operation
 WHERE run_id = ANY(%s::uuid[]) AND tool_call_id = ANY(%s::text[])"""


@dataclass(slots=True)
class Call:
    """One operation and the records of the batch that are about it."""

    op: LockedOperation
    run: RunRow | None
    is_new: bool = False
    reported: list[Reported] = field(default_factory=list)


def make(
    cur: Any,
    wanted: Mapping[UUID, list[Reported]],
    runs: Mapping[str, RunRow],
    runtime: Runtime,
    catalogue: Catalogue,
) -> dict[UUID, Call]:
    """Insert new operations; what somebody else inserts meanwhile is not in the answer."""
    calls = [
        _newborn(op_id, records, runs, runtime, catalogue) for op_id, records in wanted.items()
    ]
    _flag_reused(cur, calls)
    ops = [call.op for call in calls]
    cur.execute(
        _MAKE,
        {
            "environment": runtime.environment,
            "namespace": runtime.namespace,
            "catalogue": catalogue.version,
            "actor": runtime.actor,
            "id": arrays.plain(op.id for op in ops),
            "idem_key": arrays.texts(op.idem_key for op in ops),
            "derived_key": arrays.texts(op.derived_key for op in ops),
            "run": arrays.plain(op.run_pk for op in ops),
            "step": arrays.plain(op.step for op in ops),
            "call": arrays.texts(op.tool_call_id for op in ops),
            "position": arrays.plain(op.position for op in ops),
            "id_missing": arrays.plain(op.id_missing for op in ops),
            "tool": arrays.texts(op.tool for op in ops),
            "tool_version": arrays.plain(op.tool_version for op in ops),
            "tool_class": arrays.texts(op.tool_class for op in ops),
            "fingerprint": arrays.texts(op.args_fingerprint for op in ops),
            "goal": arrays.texts(op.goal for op in ops),
            "amount": arrays.plain(op.amount_minor for op in ops),
            "currency": arrays.texts(op.currency for op in ops),
            "flags": arrays.documents(op.flags for op in ops),
            "provider_ref": arrays.texts(op.provider_ref for op in ops),
        },
    )
    born: dict[UUID, datetime] = dict(cur.fetchall())
    for call in calls:
        if call.op.id in born:
            call.op.created_at = call.op.updated_at = born[call.op.id]
    return {call.op.id: call for call in calls if call.op.id in born}


def enter(cur: Any, ops: Sequence[LockedOperation]) -> None:
    """Enter newborn operations that no move of this batch carries anywhere: they wait."""
    if ops:
        cur.execute(_ENTER, (arrays.plain(op.id for op in ops),))
        for op in ops:
            op.waiting_on = "runtime"


def _newborn(
    op_id: UUID,
    records: Sequence[Reported],
    runs: Mapping[str, RunRow],
    runtime: Runtime,
    catalogue: Catalogue,
) -> Call:
    first = records[0]
    told = next((record for record in records if record.args_fingerprint is not None), first)
    assert first.run is not None  # noqa: S101 -- every record about an operation names its run
    run = runs[first.run.id]
    committed = [record for record in records if record.type == "TOOL_COMMITTED"]
    facts = catalogue.facts(told.tool or "")
    amount_minor, currency = (
        money.amount_of(facts, told.args) if facts.amount_pointer else (None, None)
    )
    op = LockedOperation(
        id=op_id,
        environment=runtime.environment,
        namespace=runtime.namespace,
        idem_key=first.idem_key or "",
        derived_key=first.derived_key or "",
        run_pk=run.pk,
        step=first.step or 0,
        tool_call_id=first.tool_call_id,
        position=first.position,
        id_missing=first.id_missing,
        tool=told.tool or "",
        tool_version=facts.version,
        tool_class=facts.tool_class,
        catalogue_version=catalogue.version,
        args_fingerprint=told.args_fingerprint,
        goal=next((record.goal for record in records if record.goal), None),
        amount_minor=amount_minor,
        currency=currency,
        executor="self",
        compensates_id=None,
        compensation_slot=None,
        superseded_by_id=None,
        mode="report",
        state=states.PENDING,
        version=1,
        failure=None,
        closed=False,
        closed_as=None,
        waiting_on=_NOT_ENTERED,
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
        # Written at birth: it is indexed, and a later update of the row would not be HOT.
        provider_ref=next((record.provider_ref for record in committed), None),
        effect_status=None,
        verdict=None,
        flags=[],
        replays=0,
        created_at=_UNBORN,
        updated_at=_UNBORN,
        run_id=run.run_id,
        agent=run.agent,
        agent_version=run.agent_version,
        prompt_version=run.prompt_version,
        code_version=run.code_version,
    )
    return Call(op, run, is_new=True)


def _flag_reused(cur: Any, calls: Sequence[Call]) -> None:
    """Hint at call ids that another step of the same run has used already."""
    seen: defaultdict[tuple[UUID, str], set[int]] = defaultdict(set)
    old = [call.op for call in calls if call.run is not None and not call.run.is_new]
    if old:
        pks = arrays.plain({op.run_pk for op in old})
        cur.execute(_REUSED, (pks, arrays.texts({op.tool_call_id for op in old})))
        for run, call_id, step in cur.fetchall():
            seen[run, call_id].add(step)
    for call in calls:
        op = call.op
        if op.tool_call_id.startswith("#"):
            continue
        steps = seen[op.run_pk, op.tool_call_id]
        if steps - {op.step}:
            op.flags = ["id_reused"]
        steps.add(op.step)
