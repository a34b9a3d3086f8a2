"""Broken promises that a person must see: one row per cause, counted when met again."""

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from operations import transitions
from operations.actors import Scope
from operations.ids import handle, uuid7
from operations.rows import LockedOperation

_OPEN: Final = """
INSERT INTO operations_incident
    (id, environment, namespace, kind, operation_id, run_id, cause, details, times_seen)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s::jsonb, 1)
ON CONFLICT (environment, namespace, kind, cause)
    DO UPDATE SET times_seen = operations_incident.times_seen + 1
RETURNING id
"""
_EVENT: Final = """
INSERT INTO operations_event (environment, namespace, run_id, type, actor, data)
VALUES (%s, %s, %s, 'incident.opened', %s, %s::jsonb)
"""


def open_incident(
    cur: Any,
    kind: str,
    *,
    cause: str,
    actor: str,
    op: LockedOperation | None = None,
    run_id: UUID | None = None,
    scope: Scope | None = None,
    details: Mapping[str, Any] | None = None,
) -> bool:
    """Open an incident, or count it again; True where it is new.

    `cause` is what makes it the same one when met again; it is unique with kind and scope. A new
    one about a locked operation raises that operation's version. `details`: never args.
    """
    scope = op.scope if op is not None else scope
    if scope is None:
        raise TypeError("an incident needs its operation or its scope")
    run = op.run_pk if op is not None else run_id
    fresh = uuid7()
    said = json.dumps(details or {}, default=str)
    cur.execute(_OPEN, (fresh, *scope, kind, op.id if op is not None else None, run, cause, said))
    if cur.fetchone()[0] != fresh:
        return False
    told = {"incident": handle("inc", fresh), "kind": kind}
    if op is not None:
        transitions.record_event(cur, op, "operation.incident", actor=actor, data=told)
    else:
        cur.execute(_EVENT, (*scope, run, actor, json.dumps(told)))
    return True
