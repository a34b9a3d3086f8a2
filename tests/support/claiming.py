"""An agent at the service level: claims, permits and outcomes in a namespace of its own."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection, transaction

from approvals import admission
from operations import attempts, catalogue, leases, outcomes, rows, settling, sweeps
from operations.actors import Runtime
from operations.claims import Answer, ClaimRequest, OutcomeReport
from operations.errors import DomainError
from operations.models import ApiKey, CatalogueVersion, Incident, Operation, Tool

SAFE, PUT, MAIL, CHARGE = "tests.search", "tests.put", "tests.mail", "tests.charge"
#: What most tests need: one tool of each class, and one that moves money.
TOOLS: tuple[dict[str, Any], ...] = (
    {"name": SAFE, "tool_class": "safe"},
    {
        "name": PUT,
        "tool_class": "idempotent",
        "accepts_key": True,
        "key_retention_hours": 24,
        "attempts_transient": 3,
    },
    {"name": MAIL, "tool_class": "unsafe"},
    {
        "name": CHARGE,
        "tool_class": "unsafe",
        "amount_pointer": "/amount",
        "currency_pointer": "/currency",
    },
)


def publish(*tools: dict[str, Any]) -> int:
    """Publish a catalogue of exactly these tools; returns its version."""
    newest = CatalogueVersion.objects.order_by("-version").first()
    version = newest.version + 1 if newest else 1
    with transaction.atomic():
        Tool.objects.filter(superseded_in=None).update(superseded_in=version)
        for tool in tools:
            Tool.objects.create(version=version, **tool)
        CatalogueVersion.objects.create(
            version=version, published_by="system:tests", document="{}", sha256=uuid.uuid4().hex
        )
    with connection.cursor() as cur:
        catalogue.current(cur)
    return version


@dataclass
class Agent:
    """One runtime. Each call that it makes is new unless the test names it."""

    environment: str = "test"
    namespace: str = field(default_factory=lambda: f"ns-{uuid.uuid4().hex[:10]}")
    runtime: Runtime = field(init=False)

    def __post_init__(self) -> None:
        self.runtime = self.another_key()

    def another_key(self) -> Runtime:
        key = ApiKey.objects.create(
            environment=self.environment, namespace=self.namespace, name="tests",
            scopes=["operations:write"], digest=uuid.uuid4().bytes * 2, token_prefix="cs",
        )  # fmt: skip
        scopes = frozenset({"operations:write"})
        return Runtime(key.id, key.name, key.environment, key.namespace, scopes)

    def call(self, **said: Any) -> ClaimRequest:
        """A claim of a call that nobody has made yet, unless `said` names one."""
        args = said.pop("args", {"amount": 25_000, "currency": "usd"})
        facts: dict[str, Any] = {
            "run_id": f"run_{uuid.uuid4().hex}",
            "agent": "renewals",
            "step": 1,
            "tool_call_id": "call_1",
            "tool": PUT,
            "args": args,
            "args_raw": json.dumps(args).encode(),
            "attempt_id": f"try_{uuid.uuid4().hex[:8]}",
        }
        return ClaimRequest(**(facts | said))

    def claim(self, request: ClaimRequest | None = None, **said: Any) -> Answer:
        return admission.admit(request or self.call(**said), self.runtime)

    def report(
        self, answer: Answer, outcome: str, *, runtime: Runtime | None = None, **said: Any
    ) -> dict[str, Any]:
        """The outcome of the attempt that an answer granted, vouched for by its id."""
        facts: dict[str, Any] = {
            "attempt_number": answer.body["attempt_number"],
            "attempt_id": answer.body["attempt_id"],
            "outcome": outcome,
        }
        report = OutcomeReport(**(facts | said))
        return outcomes.report_outcome(runtime or self.runtime, answer.body["idem_key"], report)

    def nothing_happened(self, answer: Answer, **said: Any) -> dict[str, Any]:
        return self.report(answer, "failed", effect="none", **said)

    def sending(self, answer: Answer, token: str, number: int | None = None) -> dict[str, Any]:
        attempt_number = number or answer.body["attempt_number"]
        return leases.sending(self.runtime, answer.body["idem_key"], attempt_number, token)

    def row(self, answer: Answer | str) -> Operation:
        key = answer if isinstance(answer, str) else answer.body["idem_key"]
        return Operation.objects.get(
            environment=self.environment, namespace=self.namespace, idem_key=key
        )

    def incidents(self, answer: Answer | str | None = None) -> list[str]:
        found = Incident.objects.filter(namespace=self.namespace, environment=self.environment)
        if answer is not None:
            found = found.filter(operation=self.row(answer))
        return sorted(found.values_list("kind", flat=True))

    def standings(self, answer: Answer | str) -> list[str]:
        found = self.row(answer).attempt_set.order_by("number")
        return list(found.values_list("standing", flat=True))


@contextmanager
def refused(code: str) -> Iterator[DomainError]:
    """The block is refused with this code."""
    caught: list[DomainError] = []
    with pytest.raises(DomainError) as info:
        yield _Later(caught)  # type: ignore[misc]
    caught.append(info.value)
    assert info.value.code == code, info.value


class _Later:
    """The error, once the block is over."""

    def __init__(self, caught: list[DomainError]) -> None:
        self._caught = caught

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caught[0], name)


def let_lapse(op: Operation) -> None:
    """The lease of the live attempt ran out a second ago; nobody has noticed yet."""
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE operations_attempt SET lease_expires_at = clock_timestamp() - interval '1 s'"
            " WHERE operation_id = %s AND standing = 'live'",
            (op.id,),
        )
        cur.execute(
            "UPDATE operations_operation SET lease_expires_at = clock_timestamp() - interval '1 s',"
            " waiting_until = clock_timestamp() - interval '1 s'"
            " WHERE id = %s AND state = 'INVOKED'",
            (op.id,),
        )


def age(op: Operation, seconds: float) -> None:
    """Everything about this operation happened that much earlier."""
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE operations_attempt SET granted_at = granted_at - make_interval(secs => %s),"
            " emits_until = emits_until - make_interval(secs => %s),"
            " permit_at = permit_at - make_interval(secs => %s),"
            " permit_until = permit_until - make_interval(secs => %s) WHERE operation_id = %s",
            (seconds, seconds, seconds, seconds, op.id),
        )
        cur.execute(
            "UPDATE operations_operation"
            " SET first_sent_at = first_sent_at - make_interval(secs => %s),"
            " key_expires_at = key_expires_at - make_interval(secs => %s),"
            " gate_expires_at = gate_expires_at - make_interval(secs => %s) WHERE id = %s",
            (seconds, seconds, seconds, op.id),
        )


def release(op: Operation, reason: str, **evidence: Any) -> None:
    """A release of an UNKNOWN operation, by whoever may give this reason."""
    actor = "user:tests" if reason == "signed" else "system:reconciler"
    with transaction.atomic(), rows.hot_cursor() as cur:
        settling.release(cur, op.id, reason=reason, actor=actor, evidence=evidence)


def sweep() -> dict[str, int]:
    return sweeps.run_once()


def t_emit(op: Operation) -> Any:
    with transaction.atomic(), rows.hot_cursor() as cur:
        locked = rows.lock(cur, op_id=op.id)
        assert locked is not None
        return attempts.t_emit(attempts.load(cur, locked))
