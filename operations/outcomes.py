"""Outcomes: stored first, judged second, and never dropped.

The plain case (the only attempt reports success while it holds the operation) is one statement,
for any number of reports. Everything else is judged under the operation's lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
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
    said,
    states,
    transitions,
)
from operations.actors import Runtime
from operations.claims import OutcomeReport
from operations.documents import Beside
from operations.errors import DomainError, not_found

_SAID: Final = {
    "n": "int", "environment": "text", "namespace": "text", "idem_key": "text", "number": "int",
    "provider_ref": "text", "effect_status": "text", "result": "bytea", "result_sha256": "bytea",
    "actor": "text", "data": "jsonb",
}  # fmt: skip
_MOVED: Final = transitions.edge_sql(
    states.INVOKED,
    states.COMMITTED,
    "operation.committed",
    written="""lease_expires_at = NULL, waiting_on = NULL, waiting_until = NULL,
           provider_ref = ended.provider_ref, effect_status = ended.effect_status,
           updated_at = ended.at""",
    source="ended",
    where="o.version = ended.version",
)
#: Holds only for an operation's single attempt, with nothing beside it that a commit could touch:
#: another attempt, a refusal, a compensation that waits; and only where nobody holds its row.
#: What it leaves out is judged properly. Rows are found one by one, by their keys: by a join, the
#: planner may walk everything that is live.
COMMIT: Final = rows.one_line(f"""
WITH {said.cte(_SAID)}, held AS MATERIALIZED (
    SELECT said.*, o.id AS op, o.version, clock_timestamp() AS at
      FROM said, LATERAL (
        SELECT id, version FROM operations_operation o
         WHERE {rows.in_scope("o", "said.environment", "said.namespace")}
           AND o.idem_key = said.idem_key AND o.state = 'INVOKED' AND o.attempts = 1
           AND o.attempt_number = said.number AND o.gate IN ('none', 'granted')
           AND NOT EXISTS (SELECT FROM operations_operation c WHERE c.compensation_slot = o.id)
           FOR NO KEY UPDATE OF o SKIP LOCKED) AS o
), trying AS MATERIALIZED (
    SELECT held.*, a.id AS attempt FROM held, LATERAL (
        SELECT id FROM operations_attempt
         WHERE operation_id = held.op AND number = held.number AND standing = 'live' LIMIT 1) AS a
), ended AS (
    UPDATE operations_attempt a
       SET standing = 'committed', outcome = 'committed', ended_at = trying.at,
           provider_ref = trying.provider_ref, result_sha256 = trying.result_sha256
      FROM trying WHERE a.id = trying.attempt
 RETURNING trying.*
), {_MOVED}, kept AS (
    INSERT INTO operations_payload (operation_id, kind, attempt_number, body, sha256)
    SELECT ended.op, 'result', ended.number, ended.result, sha256(ended.result)
      FROM ended JOIN moved ON moved.id = ended.op
     WHERE ended.result IS NOT NULL
)
SELECT ended.n, {rows.COLUMNS}, r.status,
       EXISTS (SELECT FROM operations_incident i WHERE i.operation_id = o.id),
       o.compensates_id IS NOT NULL OR o.superseded_by_id IS NOT NULL
  FROM moved o JOIN ended ON ended.op = o.id, LATERAL (
    SELECT * FROM operations_run WHERE id = o.run_id LIMIT 1) AS r
""")  # noqa: S608


@dataclass(slots=True)
class PlainOutcome:
    """A report of success, which may be that of an operation's only attempt."""

    runtime: Runtime
    idem_key: str
    report: OutcomeReport
    digest: bytes | None
    answer: dict[str, Any] | None = None

    @property
    def names(self) -> set[tuple[str, ...]]:
        """What no second member of its group may name."""
        return {("key", self.runtime.environment, self.runtime.namespace, self.idem_key)}

    def said(self, n: int) -> dict[str, Any]:
        """One row of what `COMMIT` is told."""
        report = self.report
        told: dict[str, Any] = {
            "attempt": report.attempt_number,
            "provider_ref": report.provider_ref,
        }
        if self.digest is not None:
            told["result_sha256"] = self.digest.hex()
        return {
            "n": n,
            "environment": self.runtime.environment,
            "namespace": self.runtime.namespace,
            "idem_key": self.idem_key,
            "number": report.attempt_number,
            "provider_ref": report.provider_ref,
            "effect_status": report.effect_status,
            "result": report.result,
            "result_sha256": self.digest,
            "actor": self.runtime.actor,
            "data": told,
        }


def plain(runtime: Runtime, idem_key: str, report: OutcomeReport) -> PlainOutcome | None:
    """The report as a member of a group (`operations.together`); None where it is no success."""
    if report.kind != "committed":
        return None
    return PlainOutcome(runtime, idem_key, report, judging.result_digest(report.result))


def commit(cur: Any, successes: Sequence[PlainOutcome]) -> None:
    """Send the statement that commits those which are plain."""
    cur.execute(COMMIT, {"said": said.document(one.said(n) for n, one in enumerate(successes))})


def take(cur: Any, successes: Sequence[PlainOutcome]) -> None:
    """Read what was committed; the others keep `answer` None."""
    for row in cur.fetchall():
        one = successes[row[0]]
        op = rows.from_tuple(row[1:])
        run_status, has_incidents, is_linked = row[1 + rows.WIDTH :]
        if has_incidents or is_linked:
            operation = answers.document(cur, op)
        else:
            beside = Beside(run_status=run_status, result=one.report.result)
            operation = documents.operation_document(op, beside)
        one.answer = {"operation": operation, "superseded": False}


def report_outcome(runtime: Runtime, idem_key: str, report: OutcomeReport) -> dict[str, Any]:
    """Store and judge one report; `{"operation", "superseded"}`.

    NOT_FOUND for a key that nobody claimed (the report is kept), VALIDATION_ERROR for an attempt
    number that was never issued (a positive one is kept all the same).
    """
    one = plain(runtime, idem_key, report)
    if one is not None:
        rows.alone(partial(_commit_alone, one=one))
        if one.answer is not None:
            return one.answer
    with transaction.atomic(), rows.hot_cursor() as cur:
        done = _judge(cur, runtime, idem_key, report)
    # Raised after the commit: what was refused is evidence and stays.
    if isinstance(done, DomainError):
        raise done
    return done


def _commit_alone(cur: Any, *, one: PlainOutcome) -> None:
    commit(cur, [one])
    take(cur, [one])


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
