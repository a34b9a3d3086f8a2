"""Operations in doubt, made by walking the real services against the simulated provider."""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import stripe
from django.db import connection

from approvals import admission
from operations import outcomes
from operations.actors import Runtime
from operations.claims import ClaimRequest, OutcomeReport
from operations.ids import parse_handle
from operations.models import CatalogueVersion, Incident, Operation, Tool
from reconcilers import accounts, engine, sweeps
from reconcilers.models import DueLook, Finding, ProviderAccount
from tests.support.simulated_provider import SimulatedProvider


def publish(**tools: dict[str, Any]) -> None:
    """A new catalogue version that holds these tools beside those there are."""
    newest = CatalogueVersion.objects.order_by("-version").first()
    version = newest.version + 1 if newest else 1
    CatalogueVersion.objects.create(
        version=version, published_by="tests", document="{}", sha256=uuid4().hex
    )
    for name, facts in tools.items():
        tool = name.replace("__", ".")
        Tool.objects.filter(name=tool, superseded_in=None).update(superseded_in=version)
        Tool.objects.create(name=tool, version=version, **facts)


CHARGE: dict[str, Any] = {
    "tool_class": "unsafe",
    "provider": "stripe",
    "reconciler": "stripe",
    "provider_object": "payment_intent",
    "accepts_key": True,
    "key_retention_hours": 24,
    "client_timeout_seconds": 1,
    "provider_max_seconds": 900,
    "lease_seconds": 30,
    "amount_pointer": "/amount",
    "currency_pointer": "/currency",
}
IDEMPOTENT = CHARGE | {"tool_class": "idempotent"}


@dataclass
class Call:
    """One claimed call: its key, the attempt that holds it, and what it asks for."""

    world: "World"
    request: ClaimRequest
    answer: dict[str, Any]

    @property
    def key(self) -> str:
        return str(self.answer["idem_key"])

    @property
    def operation(self) -> Any:
        return Operation.objects.get(pk=self.id)

    @property
    def id(self) -> UUID:
        found = parse_handle("op", self.answer["operation"]["id"])
        assert found is not None
        return found

    @property
    def due(self) -> Any:
        return DueLook.objects.filter(pk=self.id).first()

    @property
    def findings(self) -> list[Finding]:
        return list(Finding.objects.filter(operation=self.id).order_by("id"))

    @property
    def incidents(self) -> list[str]:
        return sorted(Incident.objects.filter(operation=self.id).values_list("kind", flat=True))

    def send(self, **changes: Any) -> stripe.PaymentIntent:
        """The effect, as the agent's tool makes it."""
        args = self.request.args
        params: Any = {
            "amount": args["amount"],
            "currency": args["currency"],
            "confirm": True,
            "payment_method": "pm_card_visa",
            "metadata": {"idem_key": self.key},
        } | changes
        return self.world.stripe.v1.payment_intents.create(params, {"idempotency_key": self.key})

    def report(self, outcome: str, **changes: Any) -> None:
        report = OutcomeReport(
            attempt_number=self.answer["attempt_number"],
            attempt_id=self.answer["attempt_id"],
            send_token=self.request.send_token,
            outcome=outcome,
            **changes,
        )
        outcomes.report_outcome(self.world.runtime, self.key, report)

    def again(self) -> "Call":
        """Claim the same call once more, as a restarted agent does."""
        return self.world.claim(
            run_id=self.request.run_id,
            tool=self.request.tool,
            tool_call_id=self.request.tool_call_id,
        )


@dataclass
class World:
    """A namespace with a runtime, a provider account, and a catalogue."""

    simulator: SimulatedProvider
    environment: str = "test"
    namespace: str = field(default_factory=lambda: f"ns-{uuid4().hex[:8]}")
    secret_key: str = field(default_factory=lambda: f"sk_test_sim{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.runtime = Runtime(
            uuid4(), "agent", self.environment, self.namespace, frozenset({"operations:write"})
        )
        self.stripe = stripe.StripeClient(
            self.secret_key,
            base_addresses={"api": self.simulator.url},
            http_client=stripe.RequestsClient(timeout=5),
        )

    def account(self, name: str = "stripe", **changes: Any) -> ProviderAccount:
        document = {
            "secret_key": self.secret_key,
            "base_url": self.simulator.url,
            "timeout_seconds": 2,
            "limits": {"account": 1000, "search": 1000, "*": 1000},
        } | changes
        return accounts.create_account(
            "stripe",
            environment=self.environment,
            namespace=self.namespace,
            name=name,
            document=document,
        )

    def claim(self, tool: str = "charge", amount: int = 25_000, **changes: Any) -> Call:
        args = {"amount": amount, "currency": "usd", "customer": "cus_42"}
        facts: dict[str, Any] = {
            "run_id": f"run_{uuid4().hex[:10]}",
            "agent": "renewals",
            "step": 1,
            "tool_call_id": "call_1",
            "tool": tool,
            "args": args,
            "args_raw": json.dumps(args).encode(),
            "attempt_id": uuid4().hex,
            "send_token": uuid4().hex,
        }
        request = ClaimRequest(**(facts | changes))
        return Call(self, request, admission.admit(request, self.runtime).body)

    def doubtful(self, tool: str = "charge", *, effect: bool = False, **changes: Any) -> Call:
        """A call that was sent and whose answer was lost; `effect` says whether it happened."""
        call = self.claim(tool, **changes)
        if effect:
            call.send()
        call.report("unknown", error={"type": "timeout", "message": "no answer"})
        assert call.operation.state == "UNKNOWN"
        return call


def look_now(*calls: Call, seconds: float = 8.0) -> dict[str, int]:
    """Put them on the queue, due now, and run an engine until nothing is due."""
    sweeps.run_once()
    if calls:
        make_due(*calls)
    return dict(engine.run(seconds, patience_seconds=0.0))


def make_due(*calls: Call) -> None:
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE reconcilers_duelook SET due_at = clock_timestamp()"
            " WHERE operation_id = ANY(%s) AND due_at IS NOT NULL",
            ([call.id for call in calls],),
        )


def travel(call: Call, seconds: float) -> None:
    """Let its settle point pass: everything that its attempts did was that much earlier."""
    with connection.cursor() as cur:
        cur.execute("SET session_replication_role = replica")
        cur.execute(
            "UPDATE operations_attempt SET emits_until = emits_until - make_interval(secs => %s),"
            " permit_at = permit_at - make_interval(secs => %s) WHERE operation_id = %s",
            (seconds, seconds, call.id),
        )
        cur.execute(
            "UPDATE operations_operation SET first_sent_at = first_sent_at"
            " - make_interval(secs => %s) WHERE id = %s",
            (seconds, call.id),
        )
        cur.execute("SET session_replication_role = DEFAULT")
