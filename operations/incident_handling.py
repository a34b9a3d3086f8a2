"""What people do with an incident: take note of it, and close it. Neither changes an operation."""

import json
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from operations.errors import DomainError
from operations.ids import handle

_ACKNOWLEDGE: Final = """
UPDATE operations_incident SET acknowledged_at = clock_timestamp(), acknowledged_by = %s
 WHERE id = %s AND acknowledged_at IS NULL AND resolved_at IS NULL
RETURNING environment, namespace, run_id, operation_id
"""
_RESOLVE: Final = """
UPDATE operations_incident SET resolved_at = clock_timestamp(), resolved_by = %s
 WHERE id = %s AND resolved_at IS NULL
RETURNING environment, namespace, run_id, operation_id
"""
_EVENT: Final = """
INSERT INTO operations_event (environment, namespace, run_id, type, actor, data)
VALUES (%s, %s, %s, %s, %s, %s::jsonb)
"""


def acknowledge(incident_id: UUID, *, actor: str) -> bool:
    """Note that somebody is on it; False where somebody was, or it is resolved."""
    return _carry_out(_ACKNOWLEDGE, "incident.acknowledged", incident_id, actor, {})


def resolve(incident_id: UUID, *, actor: str, reason: str) -> bool:
    """Close it with a reason of at least ten characters; False where it was closed already."""
    reason = reason.strip()
    if len(reason) < 10:
        raise DomainError(
            "VALIDATION_ERROR", "Say in at least ten characters what was done.", pointer="/reason"
        )
    return _carry_out(_RESOLVE, "incident.resolved", incident_id, actor, {"reason": reason})


def _carry_out(
    sql: str, event_type: str, incident_id: UUID, actor: str, data: dict[str, Any]
) -> bool:
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute(sql, (actor, incident_id))
        row = cur.fetchone()
        if row is None:
            return False
        environment, namespace, run, operation = row
        told = {"incident": handle("inc", incident_id), **data}
        if operation is not None:
            told["operation"] = handle("op", operation)
        cur.execute(_EVENT, (environment, namespace, run, event_type, actor, json.dumps(told)))
    return True
