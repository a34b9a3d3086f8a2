"""Making an intent durable: one call of one step, one key, one fingerprint, for ever.

`record_intent` finds or makes the row of what a claim names (`operations.naming`), under lock, and
refuses keys that contradict each other. A claim that is plainly the first of its kind needs no
lock: see `recording.FRESH`.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from operations import canonical, endings, incidents, recording, rows, runs, transitions
from operations.actors import Runtime
from operations.errors import CONSTRAINTS, DomainError
from operations.ids import parse_handle
from operations.naming import Intent
from operations.rows import LockedOperation
from operations.runs import RunRow


@dataclass(slots=True)
class Recorded:
    """The locked operation of a claim, with its locked run; `is_new`: this claim made it."""

    op: LockedOperation
    run: RunRow
    is_new: bool


def record_intent(
    cur: Any, intent: Intent, runtime: Runtime, *, minted: bool = False
) -> Recorded | DomainError:
    """Find or make the operation that a claim names, and lock its run and then it.

    A refusal is returned, not raised: the incident that goes with it must be committed.
    `minted`: Countersign itself made this call (an edit), so its id may be a reserved one.
    """
    for _ in range(3):
        found = _find(cur, intent)
        if found is not None:
            if (found.idem_key, found.derived_key) != (intent.idem_key, intent.derived_key):
                return _collision(cur, intent, found, runtime)
            run = runs.lock(cur, found.run_pk)
            op = rows.lock(cur, op_id=found.id)
            assert op is not None  # noqa: S101 -- operations are never deleted
            return _same_call(cur, intent, op, runtime) or Recorded(op, run, is_new=False)
        home = runs.home(cur, intent.request, runtime)
        if isinstance(home, DomainError):
            return home
        made = _make(cur, intent, home, runtime, minted=minted)
        if made is not None:
            return made
        # Somebody else made it between our look and our insert: look again.
    raise DomainError("ATTEMPT_IN_FLIGHT", "The operation is being recorded by somebody else.")


def _make(
    cur: Any, intent: Intent, run: RunRow, runtime: Runtime, *, minted: bool
) -> Recorded | DomainError | None:
    original: LockedOperation | None = None
    if intent.request.compensates is not None:
        # Locked before its compensation exists: a release of the original looks for one.
        original = _original(cur, intent, intent.request.compensates)
        if original is None:
            return DomainError(
                "VALIDATION_ERROR",
                "There is no such operation to compensate.",
                pointer="/compensates",
            )
        if endings.has_live_compensation(cur, original.id):
            return DomainError(*CONSTRAINTS["operation_has_one_live_compensation"])
    if not minted and canonical.is_reserved_call_id(intent.request.tool_call_id):
        return DomainError(
            "VALIDATION_ERROR",
            "Ids that begin with '#' or end in '~edit<n>' are made by Countersign alone.",
            pointer="/tool_call_id",
        )
    op = recording.make(cur, intent, run, runtime, original.id if original else None)
    return Recorded(op, run, is_new=True) if op is not None else None


def _original(cur: Any, intent: Intent, named: str) -> LockedOperation | None:
    op_id = parse_handle("op", named)
    if op_id is None:
        return rows.lock(cur, scope=intent.scope, idem_key=named)
    op = rows.lock(cur, op_id=op_id)
    return op if op is not None and op.scope == intent.scope else None


@dataclass(frozen=True, slots=True)
class _Found:
    id: UUID
    run_pk: UUID
    idem_key: str
    derived_key: str


_FIND: Final = f"""
SELECT id, run_id, idem_key, derived_key FROM operations_operation o
 WHERE {rows.in_scope("o")} AND idem_key = %s
UNION ALL
SELECT id, run_id, idem_key, derived_key FROM operations_operation o
 WHERE {rows.in_scope("o")} AND derived_key = %s AND idem_key <> %s
"""  # noqa: S608


def _find(cur: Any, intent: Intent) -> _Found | None:
    scope, key = intent.scope, intent.idem_key
    cur.execute(_FIND, (*scope, key, *scope, intent.derived_key, key))
    row = cur.fetchone()
    return _Found(*row) if row else None


def refuse_collision(cur: Any, intent: Intent, runtime: Runtime) -> DomainError | None:
    """KEY_COLLISION, with its incident, where one key names two calls or the reverse."""
    found = _find(cur, intent)
    if found is None or found.derived_key == intent.derived_key == intent.idem_key:
        return None
    if (found.idem_key, found.derived_key) == (intent.idem_key, intent.derived_key):
        return None
    return _collision(cur, intent, found, runtime)


def _collision(cur: Any, intent: Intent, found: _Found, runtime: Runtime) -> DomainError:
    op = rows.lock(cur, op_id=found.id)
    incidents.open_incident(
        cur,
        "args_conflict",
        op=op,
        cause=f"{found.id}:key:{intent.idem_key}:{intent.derived_key}",
        actor=runtime.actor,
        details={
            "problem": "KEY_COLLISION",
            "claimed": {
                "idem_key": intent.idem_key,
                "run_id": intent.request.run_id,
                "step": intent.request.step,
                "tool_call_id": intent.tool_call_id,
            },
        },
    )
    one_key = found.idem_key == intent.idem_key
    return DomainError(
        "KEY_COLLISION",
        "The key belongs to another call (run, step, tool call id)."
        if one_key
        else f"The call is known under another key: {found.idem_key!r}.",
        idem_key=intent.idem_key,
        pointer="/idem_key",
    )


def is_same_call(cur: Any, intent: Intent, op: LockedOperation) -> bool:
    """Whether key, tool and args are those that the operation was recorded with."""
    if op.derived_key != intent.derived_key or op.tool != intent.tool:
        return False
    return op.args_fingerprint == intent.args_fingerprint or _is_edited_call(cur, intent, op)


def _same_call(
    cur: Any, intent: Intent, op: LockedOperation, runtime: Runtime
) -> DomainError | None:
    """None where tool and args are those that the key was first used with."""
    if op.tool == intent.tool and op.args_fingerprint is None:
        _describe_args(cur, intent, op, runtime)
        return None
    if is_same_call(cur, intent, op):
        return None
    incidents.open_incident(
        cur,
        "args_conflict",
        op=op,
        cause=f"{op.id}:args:{intent.args_fingerprint}:{intent.tool}",
        actor=runtime.actor,
        details={
            "problem": "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS",
            "recorded": {"tool": op.tool, "args_fingerprint": op.args_fingerprint},
            "claimed": {"tool": intent.tool, "args_fingerprint": intent.args_fingerprint},
        },
    )
    return DomainError(
        "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS",
        "This key was first used with another tool or other arguments; nothing was changed.",
        idem_key=op.idem_key,
        pointer="/args" if op.tool == intent.tool else "/tool",
    )


def _describe_args(cur: Any, intent: Intent, op: LockedOperation, runtime: Runtime) -> None:
    """A record told of this call without its args; the claim brings them."""
    transitions.record_event(
        cur,
        op,
        "operation.described",
        actor=runtime.actor,
        data={"args_fingerprint": intent.args_fingerprint},
        args_fingerprint=intent.args_fingerprint,
        amount_minor=intent.amount_minor,
        currency=intent.currency,
    )
    keep_payload(cur, op.id, "args", intent.request.args_raw)


_EDITED_FROM: Final = """
SELECT args_fingerprint FROM operations_operation WHERE superseded_by_id = %s AND run_id = %s
"""
_COMPENSATED: Final = """
SELECT args_fingerprint FROM operations_operation WHERE id = %s
"""


def _is_edited_call(cur: Any, intent: Intent, op: LockedOperation) -> bool:
    """A person wrote the args (an edit, a compensation): its claim may bring those of the call it
    stands for, and is given the person's.
    """
    if "~edit" in op.tool_call_id:
        cur.execute(_EDITED_FROM, (op.id, op.run_pk))
    elif op.compensates_id is not None and op.tool_call_id.startswith("compensate:"):
        cur.execute(_COMPENSATED, (op.compensates_id,))
    else:
        return False
    return any(row[0] == intent.args_fingerprint for row in cur.fetchall())


_PAYLOAD: Final = """
INSERT INTO operations_payload (operation_id, kind, attempt_number, body, sha256)
SELECT %s, %s, %s, %s, %s
 WHERE NOT EXISTS (SELECT FROM operations_payload
                    WHERE operation_id = %s AND kind = %s AND attempt_number = %s AND sha256 = %s)
"""


def keep_payload(cur: Any, op_id: UUID, kind: str, body: bytes, attempt_number: int = 0) -> bytes:
    """Keep erasable bytes once; returns their SHA-256, which is all that events may hold."""
    digest = sha256(body).digest()
    key = (op_id, kind, attempt_number)
    cur.execute(_PAYLOAD, (*key, body, digest, *key, digest))
    return digest
