"""Rows for tests of pages, made by walking the real services, so that they can exist.

`everything()` gives one operation of each kind that the pages tell apart, with people of each
role. Only what a look showed is written directly: no provider runs beside these tests.
"""

import itertools
import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from approvals import admission, decisions, policies
from approvals.models import ApprovalRequest, User
from operations import outcomes, settling
from operations.actors import Runtime
from operations.claims import Answer, ClaimRequest, OutcomeReport
from operations.errors import DomainError
from operations.models import ApiKey, CatalogueVersion, Operation, Tool
from reconcilers.models import Finding, ProviderAccount
from tests.support import approving
from tests.support.approving import BrowserKey

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


@dataclass
class Seeded:
    """What stands in the database: operations by what they show, people by role."""

    runtime: Runtime
    people: dict[str, User]
    operations: dict[str, Operation] = field(default_factory=dict)
    approval: ApprovalRequest | None = None


def people() -> dict[str, User]:
    """One person of each role, all with the same password."""
    names = {"viewer": "Vera Lind", "operator": "Bode Ode", "reviewer": "Ami Kim",
             "admin": "Kei Ito", "auditor": "Uma Roy"}  # fmt: skip
    return {
        role: User.objects.create_user(
            f"{role}@example.com", PASSWORD, role=role, name=names[role], time_zone="Europe/Berlin"
        )
        for role in ROLES
    }


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


def finding(
    operation: Operation, lookup: str, lookup_class: str, outcome: str, **more: Any
) -> None:
    """What one look showed."""
    at = more.pop("at", datetime.now(UTC))
    Finding.objects.create(
        operation=operation, lookup=lookup, lookup_class=lookup_class, outcome=outcome,
        started_at=at, ended_at=at + timedelta(milliseconds=180), **more,
    )  # fmt: skip


def everything() -> Seeded:
    """One of each."""
    seeded = Seeded(runtime(), people())
    catalogue()
    who, ops = seeded.runtime, seeded.operations
    account = ProviderAccount.objects.create(
        environment="test", kind="stripe", name="stripe-test", secrets=b""
    )
    run = "run_invoices_0412"
    charge = {"customer": "cus_42", "amount": 125000, "currency": "eur", "note": "Invoice 8841"}
    lookup = call(run, 1, "crm.lookup", {"customer": "cus_42"})
    ops["looked_up"] = committed(who, lookup)
    admit(lookup, who)  # asked again after a restart: answered from the record
    first = call(run, 2, "stripe.charge", charge)
    ops["committed"] = committed(who, first, "pi_3QmZ81")
    admit(first, who)
    ops["waiting_look"] = unknown(
        who,
        call(run, 3, "stripe.charge", charge | {"amount": 98000}),
        {
            "kind": "waiting",
            "code": "before_settle_point",
            "settles_at": (datetime.now(UTC) + timedelta(minutes=19)).isoformat(),
            "sentence": "Stripe's list found nothing at 14:00:12, 14:00:20 UTC. An empty answer "
            "can be trusted from 14:21:10 UTC (client timeout 80 s + 15 min request lifetime).",
        },
    )
    for seconds in (2, 6, 14):
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        finding(
            ops["waiting_look"],
            "list",
            "B",
            "empty",
            account=account,
            complete=True,
            pages=1,
            at=at,
        )
    finding(ops["waiting_look"], "search", "C", "empty", account=account)
    finding(
        ops["waiting_look"], "events", "E", "cannot_look", account=account, reason="429 from Stripe"
    )
    ops["needs_person"] = unknown(
        who,
        call(run, 4, "mail.send", {"to": "a@example.com", "text": "Hello"}),
        {
            "kind": "needs_human",
            "code": "nobody_to_ask",
            "waiting_on": "person",
            "sentence": "No provider account answers for mail.send. A person must find out and decide.",
        },
    )
    yen = {"customer": "cus_7", "amount": 88000, "currency": "jpy"}
    ops["conflict"] = unknown(
        who,
        call("run_refunds_77", 1, "stripe.charge", yen),
        {
            "kind": "conflict",
            "code": "other_content",
            "waiting_on": "person",
            "sentence": "Stripe has pi_3Xz (8800 JPY), but its amount is not what was asked for (asked "
            "for: 88000 JPY). Nothing is executed or refunded: a person must compare the two.",
        },
    )
    seen = {"id": "pi_3Xz", "status": "succeeded", "amount_minor": 8800, "currency": "JPY"}
    finding(
        ops["conflict"], "list", "B", "hit", account=account, complete=True, objects_seen=[seen]
    )
    ops["unreachable"] = unknown(
        who,
        call("run_refunds_77", 2, "stripe.charge", yen | {"amount": 4200}),
        {
            "kind": "cannot_look",
            "code": "cannot_look",
            "sentence": "Stripe could not be asked at 13:59:58 UTC: 503 from the provider. That "
            "says nothing about the call.",
        },
    )
    ops["unasked"] = unknown(who, call("run_refunds_77", 3, "stripe.charge", charge))
    ops["running"] = row(admit(call("run_sync_5", 1, "stripe.charge", charge), who))
    declined = call("run_sync_5", 2, "stripe.charge", charge | {"amount": 31000})
    answer = admit(declined, who)
    report(
        who,
        declined,
        answer,
        outcome="failed",
        effect="none",
        permanent=True,
        error={"type": "card_declined", "message": "Your card was declined.", "http_status": 402},
    )
    ops["failed"] = row(answer)
    pending = call("run_sync_5", 3, "stripe.charge", charge)
    answer = admit(pending, who)
    report(who, pending, answer, outcome="failed", effect="none", error={"type": "connect_refused"})
    ops["pending"] = row(answer)
    _approvals(seeded)
    _conflicting_arguments(who, pending)
    return seeded


TRICKY = {
    "amount": 4800000,
    "currency": "EUR",
    "payee": {"name": "АСМЕ GmbH", "iban": "DE89370400440532013030"},
    "memo": "Invoice 8841\u202efdp.exe",
    "reference": " 0012 ",
    "tags": [],
    "urgent": True,
    "cost_centre": None,
    "ratio": 1.25,
    "note": "<b hx-post=/pwn hx-trigger=load>pay</b> **now**",
}


def _approvals(seeded: Seeded) -> None:
    who, ops = seeded.runtime, seeded.operations
    ops["waiting"] = row(admit(call("run_payables_31", 31, "bank.transfer", TRICKY), who))
    seeded.approval = ApprovalRequest.objects.get(operation=ops["waiting"])
    small = {
        "amount": 310000,
        "currency": "EUR",
        "payee": {"name": "ACME", "iban": "DE02120300000000202051"},
    }
    key = BrowserKey()
    reviewer = seeded.people["reviewer"]
    enrolled = key.enrol(reviewer)
    for verdict, name in (("approve", "approved"), ("deny", "denied")):
        ops[name] = row(admit(call("run_payables_31", 32, "bank.transfer", small), who))
        asked = ApprovalRequest.objects.get(operation=ops[name])
        ceremony = decisions.start(
            reviewer,
            approving.SESSION,
            asked.handle,
            verdict,
            key=enrolled,
            reason="Checked by phone.",
        )
        answer = key.answer(ceremony)
        decisions.finish(
            reviewer, approving.SESSION, ceremony.statement_id, answer, approval_id=asked.handle
        )
        ops[name].refresh_from_db()


def _conflicting_arguments(who: Runtime, known: ClaimRequest) -> None:
    args = {"customer": "cus_43", "amount": 125000, "currency": "eur"}
    again = call(known.run_id, known.step, known.tool, args, tool_call_id=known.tool_call_id)
    with suppress(DomainError):  # refused, and an incident
        admit(again, who)
