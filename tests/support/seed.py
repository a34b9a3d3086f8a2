"""Rows for tests of pages, made by walking the real services, so that they can exist.

Only what a look showed is written directly: no provider runs beside these tests.
"""

import itertools
import json
import uuid
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import connection, transaction

from approvals import admission, policies
from approvals.models import User
from operations import outcomes, settling
from operations.actors import Runtime
from operations.claims import Answer, ClaimRequest, OutcomeReport
from operations.models import ApiKey, CatalogueVersion, Operation, Tool
from reconcilers import findings
from reconcilers.evidence import Look, Outcome
from reconcilers.models import ProviderAccount

PASSWORD = "a long test password"
ROLES = ("viewer", "operator", "reviewer", "admin", "auditor")
_CALLS = itertools.count(1)
_RECONCILER = "system:reconciler"

TOOLS: list[dict[str, Any]] = [
    {
        "name": "stripe.charge", "tool_class": "idempotent", "provider": "stripe",
        "reconciler": "stripe", "accepts_key": True, "key_retention_hours": 24,
        "amount_pointer": "/amount", "currency_pointer": "/currency", "lease_seconds": 90,
    },
    {
        "name": "bank.transfer", "tool_class": "unsafe", "provider": "bank",
        "amount_pointer": "/amount", "currency_pointer": "/currency",
    },
    {"name": "crm.lookup", "tool_class": "safe"},
    {"name": "mail.send", "tool_class": "unsafe"},
]  # fmt: skip
POLICIES = [
    {
        "id": "transfers", "match": {"tool": "bank.transfer"}, "tier": "T3", "quorum": 1,
        "min_custody": "A1", "expires_minutes": 54,
    },
    {"id": "rest", "match": {"environment": "test"}, "quorum": 0},
]  # fmt: skip


def people() -> dict[str, User]:
    """One person of each role, all with the same password."""
    names = {"viewer": "Vera Lind", "operator": "Bode Ode", "reviewer": "Ami Kim",
             "admin": "Kei Ito", "auditor": "Uma Roy"}  # fmt: skip
    return {
        role: User.objects.create(
            email=f"{role}@example.com",
            password=_hashed(),
            role=role,
            name=names[role],
            time_zone="Europe/Berlin",
        )
        for role in ROLES
    }


@cache
def _hashed() -> str:
    """Hashing is slow on purpose, so it is done once."""
    return make_password(PASSWORD)


def catalogue() -> None:
    """Tools and policies of version 1."""
    with transaction.atomic():
        CatalogueVersion.objects.create(
            version=1, published_by="system:tests", document="{}", sha256="0" * 64
        )
        for tool in TOOLS:
            Tool.objects.create(version=1, **tool)
        policies.apply(POLICIES, 1, "system:tests")


def runtime(environment: str = "test") -> Runtime:
    """An agent's credential."""
    key = ApiKey.objects.create(
        environment=environment, namespace="default", name="payables-bot",
        scopes=["operations:write"],
        digest=uuid.uuid4().bytes * 2, token_prefix="cs_test",
    )  # fmt: skip
    return Runtime(key.id, key.name, environment, "default", frozenset(key.scopes))


def call(run: str, step: int, tool: str, args: dict[str, Any], **more: Any) -> ClaimRequest:
    """A claim, as the API hands it on."""
    number = next(_CALLS)
    return ClaimRequest(**{
        "run_id": run, "agent": "payables-bot", "agent_version": "2.3", "prompt_version": "p18",
        "step": step, "tool_call_id": f"call_{number:04}", "tool": tool, "args": args,
        "args_raw": json.dumps(args, ensure_ascii=False).encode(), "attempt_id": f"att_{number}",
        "layer": "step", "worker": "w-4", "fenced": True, "send_token": f"token_{number}",
        "reason": "Invoice 77 is due today.", **more,
    })  # fmt: skip


def admit(request: ClaimRequest, who: Runtime) -> Answer:
    """One claim through the door."""
    return admission.admit(request, who)


def row(answer: Answer) -> Operation:
    """The operation of an answer."""
    return Operation.objects.get(idem_key=answer.body["idem_key"])


def report(who: Runtime, request: ClaimRequest, answer: Answer, **said: Any) -> None:
    """One outcome."""
    outcomes.report_outcome(
        who,
        answer.body["idem_key"],
        OutcomeReport(
            attempt_number=answer.body["attempt_number"],
            attempt_id=request.attempt_id,
            send_token=request.send_token,
            **said,
        ),
    )


def committed(who: Runtime, request: ClaimRequest, ref: str = "") -> Operation:
    """Claimed, carried out, reported."""
    answer = admit(request, who)
    result = json.dumps({"id": ref or "done", "status": "succeeded"}).encode()
    report(who, request, answer, outcome="committed", result=result, provider_ref=ref or None)
    return row(answer)


def unknown(
    who: Runtime, request: ClaimRequest, verdict: dict[str, Any] | None = None
) -> Operation:
    """Sent, and nobody knows; with a verdict, if the provider was asked."""
    answer = admit(request, who)
    error = {"type": "timeout", "message": "no answer within 80 s"}
    report(who, request, answer, outcome="unknown", error=error)
    operation = row(answer)
    if verdict is not None:
        conclude(operation, verdict)
        operation.refresh_from_db()
    return operation


def conclude(operation: Operation, verdict: dict[str, Any]) -> None:
    """Write a verdict as the reconciler does."""
    waiting_on = verdict.pop("waiting_on", "look")
    with transaction.atomic(), connection.cursor() as cur:
        settling.set_verdict(cur, operation.pk, verdict, actor=_RECONCILER, waiting_on=waiting_on)


def look(
    operation: Operation,
    account: ProviderAccount,
    lookup: str,
    lookup_class: str,
    outcome: Outcome,
    *,
    after: float = 0,
    **more: Any,
) -> None:
    """What one look showed, as the reconciler keeps it; `after` in seconds from now."""
    at = datetime.now(UTC) + timedelta(seconds=after)
    shown = Look(
        lookup=lookup,
        lookup_class=lookup_class,
        outcome=outcome,
        started_at=at,
        ended_at=at + timedelta(milliseconds=180),
        **more,
    )
    with connection.cursor() as cur:
        findings.store(cur, account.pk, [(operation.pk, shown)])
