"""Outcomes: stored first, judged second, and never dropped.

The plain case (the only attempt reports success while it holds the operation) is one statement.
Everything else is judged under the operation's lock.
"""

import json
from hashlib import sha256
from typing import Any, Final

from django.db import transaction

from operations import (
    answers,
    attempts,
    documents,
    inbox,
    judging,
    leases,
    rows,
    states,
    transitions,
)
from operations.actors import Runtime
from operations.claims import OutcomeReport
from operations.documents import Beside
from operations.errors import DomainError, not_found

#: Holds only for the operation's single attempt, with nothing beside it that a commit could touch:
#: another attempt, a refusal, a compensation that waits. Zero rows means "judge it properly".
#: The attempt is found by a sub-select: by a join, the planner may walk everything that is live.
_MOVED: Final = transitions.edge_sql(
    states.INVOKED,
    states.COMMITTED,
    "operation.committed",
    written="""lease_expires_at = NULL, waiting_on = NULL, waiting_until = NULL,
           provider_ref = %(provider_ref)s, effect_status = %(effect_status)s,
           updated_at = held.at""",
    source="held, ended",
    where="o.id = held.id AND o.version = held.version",
)
_COMMIT: Final = rows.one_line(f"""
WITH held AS MATERIALIZED (
    SELECT o.id, o.version, clock_timestamp() AS at FROM operations_operation o
     WHERE o.environment = %(environment)s AND o.namespace = %(namespace)s
       AND o.idem_key = %(idem_key)s AND o.state = 'INVOKED' AND o.attempts = 1
       AND o.attempt_number = %(number)s AND o.gate IN ('none', 'granted')
       AND NOT EXISTS (SELECT FROM operations_operation c WHERE c.compensation_slot = o.id)
       FOR NO KEY UPDATE OF o
), ended AS (
    UPDATE operations_attempt a
       SET standing = 'committed', outcome = 'committed', ended_at = (SELECT at FROM held),
           provider_ref = %(provider_ref)s, result_sha256 = %(result_sha256)s
     WHERE a.operation_id = (SELECT id FROM held) AND a.number = %(number)s
       AND a.standing = 'live'
 RETURNING a.id
), {_MOVED}, kept AS (
    INSERT INTO operations_payload (operation_id, kind, attempt_number, body, sha256)
    SELECT id, 'result', %(number)s, %(result)s::bytea, %(body_sha256)s FROM moved
     WHERE %(result)s::bytea IS NOT NULL
)
SELECT {rows.COLUMNS}, r.status,
       EXISTS (SELECT FROM operations_incident i WHERE i.operation_id = o.id),
       o.compensates_id IS NOT NULL OR o.superseded_by_id IS NOT NULL
  FROM moved o JOIN operations_run r ON r.id = o.run_id
""")  # noqa: S608


def report_outcome(runtime: Runtime, idem_key: str, report: OutcomeReport) -> dict[str, Any]:
    """Store and judge one report; `{"operation", "superseded"}`.

    NOT_FOUND for a key that nobody claimed (the report is kept), VALIDATION_ERROR for an attempt
    number that was never issued (a positive one is kept all the same).
    """
    if report.kind == "committed":
        plain = rows.alone(lambda cur: _commit_plainly(cur, runtime, idem_key, report))
        if plain is not None:
            return plain
    with transaction.atomic(), rows.hot_cursor() as cur:
        done = _judge(cur, runtime, idem_key, report)
    # Raised after the commit: what was refused is evidence and stays.
    if isinstance(done, DomainError):
        raise done
    return done


def _commit_plainly(
    cur: Any, runtime: Runtime, idem_key: str, report: OutcomeReport
) -> dict[str, Any] | None:
    digest = judging.result_digest(report.result)
    told: dict[str, Any] = {"attempt": report.attempt_number, "provider_ref": report.provider_ref}
    if digest is not None:
        told["result_sha256"] = digest.hex()
    cur.execute(
        _COMMIT,
        {
            "environment": runtime.environment,
            "namespace": runtime.namespace,
            "idem_key": idem_key,
            "number": report.attempt_number,
            "provider_ref": report.provider_ref,
            "effect_status": report.effect_status,
            "result": report.result,
            "result_sha256": digest,
            "body_sha256": sha256(report.result).digest() if report.result is not None else None,
            "actor": runtime.actor,
            "data": json.dumps(told),
        },
    )
    row = cur.fetchone()
    if row is None:
        return None
    op = rows.from_tuple(row)
    run_status, has_incidents, is_linked = row[rows.WIDTH :]
    if has_incidents or is_linked:
        operation = answers.document(cur, op)
    else:
        beside = Beside(run_status=run_status, result=report.result)
        operation = documents.operation_document(op, beside)
    return {"operation": operation, "superseded": False}


def _judge(
    cur: Any, runtime: Runtime, idem_key: str, report: OutcomeReport
) -> dict[str, Any] | DomainError:
    op = rows.lock(cur, scope=runtime.scope, idem_key=idem_key)
    if op is None:
        _keep(cur, runtime, idem_key, report, inbox.OUTCOME)
        return not_found("Nobody has claimed this key; the report is kept for whoever does.")
    if report.attempt_number > op.attempt_number:
        if report.kind == "committed":
            _keep(cur, runtime, idem_key, report, inbox.NEVER_ISSUED)
        return leases.never_issued(op)
    tries = attempts.load(cur, op)
    superseded = judging.judge(cur, op, tries, report, runtime=runtime.key_id, actor=runtime.actor)
    return {"operation": answers.document(cur, op), "superseded": superseded}


def _keep(cur: Any, runtime: Runtime, idem_key: str, report: OutcomeReport, source: str) -> None:
    body = judging.evidence_of(report)
    inbox.keep(cur, runtime.scope, idem_key, source=source, body=body, runtime=runtime.key_id)
