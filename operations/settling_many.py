"""Many plain settlements at once: what one window of a list showed for thousands of operations.

The same edges, events and checks as `operations.settling`, in a handful of statements for all of
them. Whatever is not plain (a second attempt in doubt, an approval that was refused, a
compensation that waits, an intent that has moved) is left untouched, for the verb that handles one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from operations import arrays, rows, states, transitions
from operations.attempts import AttemptRow, Tries
from operations.effects import Effect
from operations.rows import LockedOperation
from operations.transitions import Move

_LOCK: Final = f"""
SELECT {rows.COLUMNS} FROM operations_operation o JOIN operations_run r ON r.id = o.run_id
 WHERE o.id = ANY(%s::uuid[]) ORDER BY o.id FOR NO KEY UPDATE OF o
"""  # noqa: S608
# Quoted, because "grant" is a word of SQL's own.
_TRIES: Final = f"""
SELECT operation_id, {", ".join(f'"{item.name}"' for item in fields(AttemptRow))}
  FROM operations_attempt WHERE operation_id = ANY(%s::uuid[]) ORDER BY operation_id, number
"""  # noqa: S608
_COMPENSATED: Final = """
SELECT compensation_slot FROM operations_operation WHERE compensation_slot = ANY(%s::uuid[])
"""
_COMMITTED: Final = """
UPDATE operations_attempt AS a
   SET standing = 'committed', outcome = 'committed', ended_at = clock_timestamp(),
       provider_ref = said.ref, result_sha256 = NULL
  FROM unnest(%s::bigint[], %s::text[]) AS said (id, ref)
 WHERE a.id = said.id
"""
_HELD: Final = """
UPDATE operations_operation AS o
   SET verdict = said.verdict, waiting_on = said.waiting_on, waiting_until = said.waiting_until
  FROM unnest(%s::uuid[], %s::jsonb[], %s::text[], %s::timestamptz[])
       AS said (id, verdict, waiting_on, waiting_until)
 WHERE o.id = said.id
"""
#: Gates under which an effect is more than an effect: somebody had not said yes, or had said no.
_REFUSING: Final = frozenset({"waiting", "refused", "revoked"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """An effect that was found for one UNKNOWN operation, and the verdict that says so."""

    op_id: UUID
    provider_ref: str | None
    effect_status: str | None
    verdict: Mapping[str, Any]
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What is known about one operation that stays UNKNOWN, and for what it waits until when."""

    op_id: UUID
    verdict: Mapping[str, Any]
    waiting_on: str
    waiting_until: datetime | None


def settle_committed_many(cur: Any, seen: Sequence[Seen], *, actor: str) -> set[UUID]:
    """UNKNOWN -> COMMITTED for all that are plain; answers their ids.

    As `settling.set_verdict` and `settling.settle_committed` for each: the verdict's event, the
    attempt's end, the transition. Runs inside the caller's transaction and locks by id.
    """
    if not seen:
        return set()
    by_id = {one.op_id: one for one in seen}
    ops = _locked(cur, by_id)
    tries = _tries(cur, ops)
    compensated = _compensated(cur, ops)
    moves: list[Move] = []
    ended: list[tuple[int, str | None]] = []
    done = set()
    for op_id, op in ops.items():
        attempt = _whose(op, tries[op_id])
        if attempt is None or op_id in compensated:
            continue
        one = by_id[op_id]
        effect = Effect(one.provider_ref, one.effect_status)
        moves += _commit(op, attempt, effect, one)
        ended.append((attempt.id, effect.provider_ref))
        done.add(op_id)
    if done:
        # The attempts first, as one settlement does it: the event tells of their end.
        cur.execute(
            _COMMITTED,
            (arrays.plain(key for key, _ in ended), arrays.texts(ref for _, ref in ended)),
        )
        transitions.transition_many(cur, moves, actor=actor)
    return done


def hold_many(cur: Any, held: Sequence[Held], *, actor: str) -> set[UUID]:
    """Write down what keeps these UNKNOWN; answers the ids of those that still are.

    As `settling.set_verdict` for each: an event only where the verdict's kind has changed.
    """
    if not held:
        return set()
    by_id = {one.op_id: one for one in held}
    ops = {op_id: op for op_id, op in _locked(cur, by_id).items() if op.state == states.UNKNOWN}
    quiet, moves = [], []
    for op_id, op in ops.items():
        one = by_id[op_id]
        if (op.verdict or {}).get("kind") == one.verdict.get("kind"):
            quiet.append(one)
        else:
            columns = {
                "verdict": dict(one.verdict),
                "waiting_on": one.waiting_on,
                "waiting_until": one.waiting_until,
            }
            moves.append(Move(op, "operation.verdict", data=_said(one.verdict), columns=columns))
    if quiet:
        cur.execute(
            _HELD,
            (
                arrays.plain(one.op_id for one in quiet),
                arrays.documents(one.verdict for one in quiet),
                arrays.texts(one.waiting_on for one in quiet),
                arrays.moments(one.waiting_until for one in quiet),
            ),
        )
    transitions.transition_many(cur, moves, actor=actor)
    return set(ops)


def _commit(op: LockedOperation, attempt: AttemptRow, effect: Effect, one: Seen) -> list[Move]:
    moves = []
    if (op.verdict or {}).get("kind") != one.verdict.get("kind"):
        columns = {"verdict": dict(one.verdict)}
        moves.append(Move(op, "operation.verdict", data=_said(one.verdict), columns=columns))
    data: dict[str, Any] = {"provider_ref": effect.provider_ref, "attempt": attempt.number}
    if effect.effect_status is not None:
        data["effect_status"] = effect.effect_status
    data |= {"evidence": dict(one.evidence), "late": False}
    moves.append(
        Move(
            op,
            "operation.reconciled",
            states.COMMITTED,
            data=data,
            columns={
                "provider_ref": effect.provider_ref or op.provider_ref,
                "effect_status": effect.effect_status or op.effect_status,
            },
        )
    )
    return moves


def _whose(op: LockedOperation, tries: Tries) -> AttemptRow | None:
    """The one attempt whose effect it must be; None where the case is not plain."""
    doubtful = tries.in_doubt()
    if op.state != states.UNKNOWN or op.gate in _REFUSING or tries.live or len(doubtful) != 1:
        return None
    return doubtful[0]


def _said(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": verdict.get("kind"), "sentence": verdict.get("sentence")}


def _locked(cur: Any, op_ids: Mapping[UUID, Any]) -> dict[UUID, LockedOperation]:
    cur.execute(_LOCK, (arrays.plain(op_ids),))
    return {op.id: op for op in map(rows.from_tuple, cur.fetchall())}


def _tries(cur: Any, ops: Mapping[UUID, LockedOperation]) -> dict[UUID, Tries]:
    """In a statement that begins after the lock, so that it sees what the lock saw."""
    now = rows.clock(cur)
    cur.execute(_TRIES, (arrays.plain(ops),))
    found = {op_id: Tries(now, []) for op_id in ops}
    for op_id, *values in cur.fetchall():
        found[op_id].rows.append(AttemptRow(*values))
    return found


def _compensated(cur: Any, ops: Mapping[UUID, LockedOperation]) -> set[UUID]:
    cur.execute(_COMPENSATED, (arrays.plain(ops),))
    return {row[0] for row in cur.fetchall()}
