"""What was heard of a call before anybody claimed it: the inbox, and records without a call id.

Judged like a report: positive commits, anything else is a doubt, for a send may have happened.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from operations import attempts, catalogue, inbox, incidents, intents, judging, states, transitions
from operations.attempts import Tries
from operations.claims import OutcomeReport
from operations.ids import handle
from operations.rows import LockedOperation


def take_inbox(
    cur: Any, op: LockedOperation, tries: Tries, *, actor: str, gated: bool = False
) -> None:
    """Judge what came for this key before its claim: positive, or else at least a doubt.

    `gated`: somebody has to approve this call, and nobody has.
    """
    items = inbox.take(cur, op)
    for item in items:
        reported = item.outcome()
        if reported.get("outcome") == "committed":
            # Whatever number it gives, no attempt had been granted when it came.
            judging.positive(cur, op, tries, None, report_from(reported), actor=actor)
        else:
            _hearsay(cur, op, tries, item, actor)
    if items and gated and op.state != states.PENDING and op.gate == "none":
        incidents.open_incident(
            cur, "executed_without_approval", op=op, cause=f"{op.id}", actor=actor,
            details={"evidence": [item.source for item in items]},
        )  # fmt: skip


_STAND_IN: Final = """
SELECT id FROM operations_operation
 WHERE run_id = %s AND step = %s AND id_missing AND tool = %s AND args_fingerprint = %s
   AND state <> 'FAILED'
 ORDER BY id LIMIT 1
"""


def doubt_by_stand_in(cur: Any, op: LockedOperation, tries: Tries, *, actor: str) -> None:
    """A record without a call id tells of this very call, or of its double: nobody can say which.

    The new operation waits for reconciliation like a send that was never claimed.
    """
    cur.execute(_STAND_IN, (op.run_pk, op.step, op.tool, op.args_fingerprint))
    row = cur.fetchone()
    if row is not None and op.state == states.PENDING:
        told = handle("op", row[0])
        item = inbox.Item(0, f"record:{told}", json.dumps({"operation": told}).encode(), None)
        _hearsay(cur, op, tries, item, actor)


def report_from(said: Mapping[str, Any]) -> OutcomeReport:
    """The report that `judging.evidence_of` kept."""
    result = json.dumps(said["result"]).encode() if "result" in said else None
    known = {name: said[name] for name in OutcomeReport.__slots__ if name in said}
    return OutcomeReport(**known | {"result": result})


def _hearsay(cur: Any, op: LockedOperation, tries: Tries, item: inbox.Item, actor: str) -> None:
    """A send that was never granted is reported: an attempt in doubt that nobody fenced."""
    if op.state in states.TERMINAL:
        intents.keep_payload(cur, op.id, "evidence", item.body)
        return
    facts = catalogue.facts_of(cur, op.tool, op.tool_version)
    number = max([op.attempt_number, *(row.number for row in tries)]) + 1
    cur.execute(_HEARSAY, (op.id, number, item.source, item.runtime, tries.now, tries.now,
                           attempts.emits_until_of_lease(tries.now, facts), tries.now))  # fmt: skip
    tries.rows.append(attempts.load(cur, op).rows[-1])
    told = {"attempt": number, "reason": "never_claimed", "source": item.source}
    intents.keep_payload(cur, op.id, "evidence", item.body, number)
    if op.state == states.PENDING:
        transitions.transition(
            cur, op, states.UNKNOWN, "operation.in_doubt", actor=actor, data=told,
            attempt_number=number,
        )  # fmt: skip
    else:
        transitions.record_event(
            cur, op, "operation.hearsay", actor=actor, data=told, attempt_number=number
        )


_HEARSAY: Final = """
INSERT INTO operations_attempt
    (operation_id, number, attempt_id, origin, layer, worker, runtime, standing, fenced,
     granted_at, lease_seconds, lease_expires_at, emits_until, ended_at, outcome, error_replayed)
VALUES (%s, %s, %s, 'hearsay', '', '', %s, 'in_doubt', false, %s, 0, %s, %s, %s, 'unknown', false)
"""
