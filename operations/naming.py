"""What a claim names: its key, its fingerprint, its amount. Nothing here reads the database."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from operations import canonical, money
from operations.actors import Runtime, Scope
from operations.catalogue import Catalogue, ToolFacts
from operations.claims import ClaimRequest
from operations.errors import DomainError
from operations.ids import uuid7


@dataclass(frozen=True, slots=True)
class Intent:
    """What a claim names, before it is looked for. Has the facts that policies read."""

    id: UUID
    request: ClaimRequest
    environment: str
    namespace: str
    idem_key: str
    derived_key: str
    tool_call_id: str
    args_fingerprint: str
    amount_minor: int | None
    currency: str | None
    facts: ToolFacts
    catalogue: Catalogue

    @property
    def scope(self) -> Scope:
        return Scope(self.environment, self.namespace)

    @property
    def tool(self) -> str:
        return self.request.tool

    @property
    def tool_class(self) -> str:
        return self.facts.tool_class

    @property
    def agent(self) -> str:
        return self.request.agent

    @property
    def position(self) -> int | None:
        return self.request.position

    def fingerprint_is_claimed(self) -> bool:
        """Whether the runtime's own fingerprint, where it sent one, is that of the args."""
        return self.request.args_fingerprint in (None, self.args_fingerprint)

    def recorded_facts(self) -> dict[str, Any]:
        """What the event of its birth says: ids, words and digests."""
        request = self.request
        told: dict[str, Any] = {
            "idem_key": self.idem_key,
            "run_id": request.run_id,
            "step": request.step,
            "tool_call_id": self.tool_call_id,
            "tool": request.tool,
            "args_fingerprint": self.args_fingerprint,
            "catalogue_version": self.catalogue.version,
        }
        if request.redacted:
            told["redacted"] = list(request.redacted)
        return told


def describe(request: ClaimRequest, runtime: Runtime, known: Catalogue) -> Intent:
    """Key, fingerprint and amount of a claim; TOOL_CALL_ID_MISSING where it names no call."""
    try:
        derived = canonical.derive_key(
            request.run_id, request.step, request.tool_call_id, request.position
        )
    except ValueError:
        raise DomainError(
            "TOOL_CALL_ID_MISSING",
            "Persist the call before running it, and number the calls of one message (`position`).",
            pointer="/tool_call_id",
        ) from None
    facts = known.facts(request.tool)
    amount_minor, currency = money.amount_of(facts, request.args)
    return Intent(
        id=uuid7(),
        request=request,
        environment=runtime.environment,
        namespace=runtime.namespace,
        idem_key=request.idem_key or derived,
        derived_key=derived,
        tool_call_id=request.tool_call_id or f"#{request.position}",
        args_fingerprint=canonical.fingerprint(request.args),
        amount_minor=amount_minor,
        currency=currency,
        facts=facts,
        catalogue=known,
    )
