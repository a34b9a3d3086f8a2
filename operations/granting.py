"""Granting: PENDING -> INVOKED for one attempt, whose number is the fencing token."""

from typing import Any, Final

from operations import catalogue, incidents, permits, rows, runs, said, states, transitions
from operations.actors import Runtime
from operations.attempts import CLOCK_SKEW_SECONDS, SEND_WITHIN_SECONDS, digest_of
from operations.catalogue import ToolFacts
from operations.claims import ClaimRequest, Grant, Permit
from operations.errors import StateConflict
from operations.ids import uuid7
from operations.rows import LockedOperation, one_line

_SAID: Final = {
    "op": "uuid", "version": "int", "actor": "text", "data": "jsonb", "lease": "int",
    "digest": "bytea", "sends": "boolean", "renews": "boolean", "retention": "int",
    "emission": "int", "attempt_id": "text", "layer": "text", "worker": "text", "runtime": "uuid",
    "versions": "jsonb", "grant": "text", "fenced": "boolean",
}  # fmt: skip
_MOVED: Final = transitions.edge_sql(
    states.PENDING,
    states.INVOKED,
    "operation.invoked",
    written="""attempt_number = o.attempt_number + 1, attempts = o.attempts + 1,
           lease_expires_at = term.lease_end, waiting_on = 'lease',
           waiting_until = term.lease_end, release_reason = NULL,
           gate_used = o.gate_used OR term.grant IS NOT NULL,
           first_sent_at = CASE WHEN term.sends THEN coalesce(o.first_sent_at, term.at)
                                ELSE o.first_sent_at END,
           key_expires_at = CASE WHEN term.sends THEN
                                 coalesce(CASE WHEN NOT term.renews THEN o.key_expires_at END,
                                          term.at + term.retention * interval '1 second')
                                 WHEN NOT term.renews THEN o.key_expires_at END,
           updated_at = term.at""",
    source="term",
    where="o.version = term.version",
)
#: For each row of `said` the lease, its attempt and the event; with a send token the permit too.
GRANT: Final = one_line(f"""
WITH {said.cte(_SAID)}, term AS MATERIALIZED (
    SELECT said.*, clock.at, clock.at + said.lease * interval '1 second' AS lease_end,
           CASE WHEN said.digest IS NOT NULL THEN
               clock.at + least(said.lease, {SEND_WITHIN_SECONDS}) * interval '1 second'
           END AS permit_until
      FROM said, (SELECT clock_timestamp() AS at) AS clock
), {_MOVED}, tried AS (
    INSERT INTO operations_attempt
        (operation_id, number, attempt_id, origin, layer, worker, runtime, versions, "grant",
         standing, fenced, granted_at, lease_seconds, lease_expires_at, send_token_digest,
         permit_at, permit_until, emits_until, error_replayed)
    SELECT moved.id, moved.attempt_number, term.attempt_id, 'claim', term.layer, term.worker,
           term.runtime, term.versions, term.grant, 'live', term.fenced, term.at, term.lease,
           term.lease_end, term.digest, CASE WHEN term.permit_until IS NOT NULL THEN term.at END,
           term.permit_until,
           CASE WHEN NOT term.fenced
                THEN term.lease_end + (term.emission + {CLOCK_SKEW_SECONDS}) * interval '1 second'
                ELSE term.permit_until + term.emission * interval '1 second' END, false
      FROM moved JOIN term ON term.op = moved.id
)
SELECT moved.id, moved.version, moved.attempt_number, term.at, term.lease_end, term.permit_until,
       moved.first_sent_at, moved.key_expires_at, moved.gate_used
  FROM moved JOIN term ON term.op = moved.id
""")  # noqa: S608


def grant(
    cur: Any,
    op: LockedOperation,
    request: ClaimRequest,
    runtime: Runtime,
    *,
    facts: ToolFacts | None = None,
    gate_ref: str | None = None,
) -> Grant:
    """PENDING -> INVOKED for one attempt: lease, number, and with a send token its permit.

    The caller has checked everything that could refuse it. `gate_ref` is the approval it spends.
    Where the provider has forgotten our key, or is about to, a new life of the key begins: no
    send under the old one is to be repeated (a `replay` would not have come this far).
    """
    facts = facts or catalogue.facts_of(cur, op.tool, op.tool_version)
    renews = op.key_expires_at is not None and permits.is_key_expiring(op, facts, rows.clock(cur))
    bound = parameters(op, request, runtime, facts=facts, gate_ref=gate_ref, renews=renews)
    cur.execute(GRANT, {"said": said.document([bound])})
    row = cur.fetchone()
    if row is None:
        raise StateConflict(f"{op.handle} is not {op.state} at version {op.version} any more")
    granted = take_grant(op, bound, row)
    _flag_changed_versions(cur, op, request, runtime)
    return granted


def parameters(
    op: LockedOperation,
    request: ClaimRequest,
    runtime: Runtime,
    *,
    facts: ToolFacts,
    gate_ref: str | None = None,
    renews: bool = False,
) -> dict[str, Any]:
    """One row of what `GRANT` is told: one attempt."""
    attempt_id = request.attempt_id or str(uuid7())
    digest = digest_of(request.send_token) if request.send_token is not None else None
    changed = runs.changed_versions(op, request)
    told = {
        "attempt": op.attempt_number + 1,
        "attempt_id": attempt_id,
        "fenced": request.is_fenced,
        "permit": digest is not None,
        "grant": gate_ref,
    }
    return {
        "op": op.id,
        "version": op.version,
        "actor": runtime.actor,
        "data": told,
        "lease": request.lease_seconds or facts.lease_seconds,
        "digest": digest,
        "sends": digest is not None or not request.is_fenced,
        "renews": renews,
        "retention": facts.retention_seconds,
        "emission": facts.emission_seconds,
        "attempt_id": attempt_id,
        "layer": request.layer,
        "worker": request.worker,
        "runtime": runtime.key_id,
        "versions": changed or None,
        "grant": gate_ref,
        "fenced": request.is_fenced,
    }


def take_grant(op: LockedOperation, bound: dict[str, Any], row: tuple[Any, ...]) -> Grant:
    """Bring the operation in step with what `GRANT` wrote, and say what the caller got."""
    _, version, number, at, lease_end, permit_until, first_sent_at, key_expires_at, used = row
    before = op.first_sent_at
    op.apply(
        {
            "state": states.INVOKED, "version": version, "attempt_number": number,
            "attempts": op.attempts + 1, "lease_expires_at": lease_end, "waiting_on": "lease",
            "waiting_until": lease_end, "release_reason": None, "first_sent_at": first_sent_at,
            "key_expires_at": key_expires_at, "gate_used": used, "updated_at": at,
        }
    )  # fmt: skip
    return Grant(
        attempt_number=number,
        attempt_id=bound["attempt_id"],
        lease_expires_at=lease_end,
        first_sent_at=before,
        permit=Permit(at, permit_until, permits.milliseconds(permit_until - at))
        if permit_until
        else None,
    )


def _flag_changed_versions(
    cur: Any, op: LockedOperation, request: ClaimRequest, runtime: Runtime
) -> None:
    changed = runs.changed_versions(op, request)
    if not changed:
        return
    said = ":".join(f"{name}={value}" for name, value in sorted(changed.items()))
    incidents.open_incident(
        cur, "version_changed", op=op, cause=f"{op.run_pk}:{said}", actor=runtime.actor,
        details={"attempt": op.attempt_number, "run_id": op.run_id, "changed": changed},
    )  # fmt: skip
    if "version_changed" not in op.flags:
        transitions.record_event(
            cur, op, "operation.version_changed", actor=runtime.actor, data=changed,
            flags=[*op.flags, "version_changed"],
        )  # fmt: skip
