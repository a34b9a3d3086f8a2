"""A furnished console: one operation of each kind that pages tell apart, people of each role."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

from approvals import decisions
from approvals.models import ApprovalRequest, User
from operations import settling
from operations.actors import Runtime
from operations.claims import ClaimRequest
from operations.errors import DomainError
from operations.models import Operation
from reconcilers.evidence import Outcome, Sighting, Stage
from reconcilers.models import ProviderAccount
from tests.support import approving, sealing
from tests.support.approving import BrowserKey
from tests.support.seed import (
    admit,
    call,
    catalogue,
    committed,
    look,
    people,
    report,
    row,
    runtime,
    unknown,
)


@dataclass
class Seeded:
    """What stands in the database: operations by what they show, people by role."""

    runtime: Runtime
    people: dict[str, User]
    operations: dict[str, Operation] = field(default_factory=dict)
    approval: ApprovalRequest | None = None


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
    listed, doubt = {"complete": True, "exhaustive": True, "pages": 1}, ops["waiting_look"]
    for after in (2, 6, 14):
        look(
            doubt,
            account,
            "list",
            "B",
            Outcome.EMPTY,
            after=after,
            answer=b'{"data": []}',
            **listed,
        )
    look(doubt, account, "search", "C", Outcome.EMPTY, after=14)
    look(doubt, account, "events", "E", Outcome.CANNOT_LOOK, after=15, reason="429 from Stripe")
    ops["needs_person"] = unknown(
        who,
        call(run, 4, "mail.send", {"to": "a@example.com", "text": "Hello"}),
        {
            "kind": "needs_human",
            "code": "nobody_to_ask",
            "waiting_on": "person",
            "sentence": "No account answers for mail.send. A person must find out and decide.",
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
            "sentence": "Stripe has pi_3Xz (8800 JPY), but its amount is not what was asked for "
            "(asked for: 88000 JPY). Nothing is executed: a person must compare the two.",
        },
    )
    seen = Sighting(
        id="pi_3Xz",
        kind="payment_intent",
        status="succeeded",
        stage=Stage.DONE,
        marker=ops["conflict"].idem_key,
        verified=True,
        amount_minor=8800,
        currency="JPY",
    )
    look(ops["conflict"], account, "list", "B", Outcome.HIT, sightings=(seen,), **listed)
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
    ops["retried"] = _sent_again(who, call("run_sync_5", 4, "stripe.charge", charge))
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


def _sent_again(who: Runtime, first: ClaimRequest) -> Operation:
    """In doubt, released for a replay under the same key, and then carried out."""
    doubtful = unknown(who, first)
    with transaction.atomic(), connection.cursor() as cur:
        settling.release(cur, doubtful.pk, reason="replay", actor="system:reconciler")
    return committed(who, replace(first, attempt_id="att_again", send_token="again"), "pi_3Again")


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
        sealing.seal()
        ops[name].refresh_from_db()


def _conflicting_arguments(who: Runtime, known: ClaimRequest) -> None:
    args = {"customer": "cus_43", "amount": 125000, "currency": "eur"}
    again = call(known.run_id, known.step, known.tool, args, tool_call_id=known.tool_call_id)
    with suppress(DomainError):  # refused, and an incident
        admit(again, who)
