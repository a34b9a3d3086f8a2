"""The request: what people are asked, fixed for ever the moment it is opened.

Its document holds the call, the agent, the scope, the policy, the fingerprint and a nonce; every
reviewer signs its digest, so signatures of two requests can never be spliced together. Lock order,
everywhere: the operation's row, then the request's row.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from approvals import statements
from approvals.encodings import b64url
from approvals.rules import Rule
from operations import canonical, catalogue, money, rows, settling
from operations.actors import Runtime
from operations.claims import ClaimRequest
from operations.ids import handle, uuid7
from operations.rows import LockedOperation

REQUEST_TYPE: Final = "urn:countersign:approval-request:v1"
UNREGISTERED: Final = "unregistered"
_LAUNCHED_BY_PERSON: Final = "user:"

_INSERT: Final = """
INSERT INTO approvals_approvalrequest (id, environment, namespace, operation_id, status, version,
    args_fingerprint, nonce, document, sha256, policy_id, policy_version, policy_sha256, rule, tier,
    quorum, groups, min_custody, requester, launched_by, created_at, expires_at)
VALUES (%s, %s, %s, %s, 'pending', 1, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s, %s,
    %s, %s, %s)
"""


@dataclass(frozen=True)
class Opened:
    """A request that has just been opened."""

    id: UUID
    handle: str
    expires_at: datetime


@dataclass(frozen=True)
class Origin:
    """Who asks, for whom, and what they hid: carried over when a request is asked again."""

    requester: str
    audience: str
    launched_by: str
    redacted: tuple[str, ...]


def open_request(
    cur: Any, op: LockedOperation, rule: Rule, request: ClaimRequest, runtime: Runtime
) -> Opened:
    """Ask for approval of a locked PENDING operation; its gate waits for the new request."""
    origin = Origin(
        requester=runtime.actor,
        audience=str(runtime.key_id),
        launched_by=launcher_of(request.trigger),
        redacted=tuple(sorted(request.redacted)),
    )
    return ask(cur, op, rule, origin, actor=runtime.actor)


def open_unasked(
    cur: Any, op: LockedOperation, rule: Rule, request: ClaimRequest, runtime: Runtime
) -> Opened:
    """The approval of a delegated call whose rule asks nobody: approved by its rule, at once.

    It carries no decision; a tool server mints and spends its grant as it would any other's.
    """
    opened = open_request(cur, op, rule, request, runtime)
    close_pending(cur, op.id, "approved")
    settling.grant_gate(cur, op, opened.handle, opened.expires_at, actor=runtime.actor)
    return opened


def ask(cur: Any, op: LockedOperation, rule: Rule, origin: Origin, *, actor: str) -> Opened:
    """The same for any origin. A request of this operation that still waits is superseded."""
    close_pending(cur, op.id, "superseded")
    created_at = rows.clock(cur)
    expires_at = created_at + timedelta(minutes=rule.expires_minutes)
    request_id, nonce = uuid7(), secrets.token_bytes(32)
    name = handle("apr", request_id)
    document = canonical.canonicalize(
        _document(op, rule, origin, name, nonce, created_at, expires_at, amount_of(cur, op))
    )
    digest = sha256(document).hexdigest()
    cur.execute(
        _INSERT,
        (
            request_id, op.environment, op.namespace, op.id, op.args_fingerprint, nonce, document,
            digest, rule.policy_id, rule.version, rule.sha256, rule.rule, rule.tier, rule.quorum,
            canonical.canonicalize(list(rule.groups)).decode(), rule.min_custody, origin.requester,
            origin.launched_by, created_at, expires_at,
        ),
    )  # fmt: skip
    settling.open_gate(cur, op, name, expires_at, actor=actor)
    return Opened(request_id, name, expires_at)


def _document(
    op: LockedOperation,
    rule: Rule,
    origin: Origin,
    name: str,
    nonce: bytes,
    created_at: datetime,
    expires_at: datetime,
    amount: dict[str, Any] | None,
) -> dict[str, Any]:
    return {
        "type": REQUEST_TYPE,
        "id": name,
        "nonce": b64url(nonce),
        "operation": op.handle,
        "args_fingerprint": op.args_fingerprint,
        "call": call_of(op),
        "tool_class": op.tool_class,
        "amount": amount,
        "agent": agent_of(op, origin.audience),
        "scope": {
            "environment": op.environment,
            "namespace": op.namespace,
            "audience": origin.audience,
        },
        "policy": policy_of(rule),
        "groups": [dict(group) for group in rule.groups],
        "never": list(rule.never),
        "coverage": rule.coverage,
        "redacted": list(origin.redacted),
        "requester": origin.requester,
        "launched_by": origin.launched_by,
        "published_by": rule.published_by,
        "created_at": statements.instant(created_at),
        "expires_at": statements.instant(expires_at),
    }


def call_of(op: LockedOperation) -> dict[str, Any]:
    """The `call` member of requests and statements."""
    return {
        "tool": op.tool,
        "tool_version": UNREGISTERED if op.tool_version is None else str(op.tool_version),
        "schema_sha256": None,
        "idem_key": op.idem_key,
        "run_id": op.run_id,
        "step": op.step,
        "tool_call_id": op.tool_call_id,
    }


def amount_of(cur: Any, op: LockedOperation) -> dict[str, Any] | None:
    """The `amount` member; the exponent is the catalogue's, null where nobody knows it."""
    if op.amount_minor is None or op.currency is None:
        return None
    exponents = catalogue.facts(cur, op.tool).exponents
    exponent = money.minor_digits(op.currency, exponents)
    return {"minor": op.amount_minor, "currency": op.currency, "exponent": exponent}


def agent_of(op: LockedOperation, runtime: str) -> dict[str, str]:
    """The `agent` member: the run's agent, its version, the API key that asks."""
    return {"id": op.agent, "version": op.agent_version or "", "runtime": runtime}


def policy_of(rule: Rule) -> dict[str, Any]:
    """The `policy` member: enough to say later under which rule it was decided."""
    return {
        "id": rule.policy_id,
        "version": rule.version,
        "sha256": rule.sha256,
        "rule": rule.rule,
        "quorum": rule.quorum,
        "min_custody": rule.min_custody,
    }


def launcher_of(trigger: str | None) -> str:
    """The person who launched the run, where its trigger says so: `user:<e-mail or id>[/…]`."""
    if not trigger or not trigger.startswith(_LAUNCHED_BY_PERSON):
        return ""
    return trigger.partition("/")[0]


def close_pending(cur: Any, op_id: UUID, status: str) -> None:
    """End the waiting request of a locked operation, if there is one; its gate is not touched."""
    cur.execute(
        """
        UPDATE approvals_approvalrequest
           SET status = %s, version = version + 1, decided_at = clock_timestamp()
         WHERE operation_id = %s AND status = 'pending'
        """,
        (status, op_id),
    )
