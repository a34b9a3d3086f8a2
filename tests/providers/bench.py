"""A stand-in for a provider with its levers, and how a contract test asks it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import uuid4

from reconcilers.evidence import Look
from reconcilers.providers.base import (
    AccountAccess,
    Answer,
    Provider,
    Question,
    parse_config,
)
from tests.support.gates import OpenGate

#: What can go wrong with every read, whatever the transport. The value says whether only a
#: person's change helps; None where that is the provider's to say.
FAULTS: Mapping[str, bool | None] = {
    "refused": True,  # 401, a wrong password: the credentials are not accepted
    "forbidden": True,  # 403, permission denied: they may not read this
    "throttled": False,  # 429, too many connections
    "outage": False,  # 5xx, nobody listens
    "hang": False,  # no answer before our own timeout
    "cut": False,  # the connection breaks before the answer is whole
    "garbage": None,  # an answer that cannot be read
    "flood": None,  # an answer without end
}


class Bench(ABC):
    """A stand-in for the provider, and how to bend it. Timeouts of `config()` are short."""

    kind: str
    environment = "test"
    object_kind: str
    #: Faults that this provider cannot meet, or the stand-in cannot make, and why.
    cannot_happen: ClassVar[Mapping[str, str]] = {}
    #: Why `other_accounts()` is empty, where it is.
    names_no_account = ""
    #: An id of the provider's form that no object has.
    absent_id = "absent_1"

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """A configuration that opens the account."""

    @abstractmethod
    def wrong_config(self) -> dict[str, Any]:
        """One whose credentials are not accepted."""

    @abstractmethod
    def make_effect(self, marker: str) -> str:
        """Let the call with this marker take effect; the object's id."""

    @abstractmethod
    def bend(self, fault: str) -> None:
        """Every read fails from now on in this way: one of FAULTS that is not `cannot_happen`."""

    @abstractmethod
    def mend(self) -> None:
        """Take every fault back."""

    def other_accounts(self) -> list[dict[str, Any]]:
        """Well-formed configurations whose credentials open another account or mode than they
        name."""
        return []


class Asked:
    """Answers of one `ask`, each question answered exactly once."""

    def __init__(self) -> None:
        self.by_marker: dict[str, tuple[Look, ...]] = {}

    def look(self, marker: str) -> Look:
        return self.by_marker[marker][-1]


def access_of(provider: Provider, environment: str, document: dict[str, Any]) -> AccountAccess:
    plain, secrets = parse_config(provider, environment, document)
    return AccountAccess(
        id=uuid4(),
        kind=provider.kind,
        name="contract",
        environment=environment,
        external_id=str(plain.pop("account", "") or ""),
        config=plain,
        secrets=secrets,
    )


def question(marker: str, object_kind: str, **changes: Any) -> Question:
    known: dict[str, Any] = {
        "operation_id": uuid4(),
        "marker": marker,
        "object_kind": object_kind,
        "window_from": datetime.now(UTC) - timedelta(minutes=1),
    }
    return Question(**(known | changes))


async def ask(
    provider: Provider,
    access: AccountAccess,
    *questions: Question,
    gate: OpenGate | None = None,
    known: dict[str, Any] | None = None,
) -> Asked:
    asked = Asked()
    markers = {each.operation_id: each.marker for each in questions}

    async def deliver(answer: Answer) -> None:
        marker = markers.pop(answer.operation_id)
        assert answer.looks
        asked.by_marker[marker] = answer.looks

    session = provider.open(access, gate or OpenGate())
    try:
        await session.ask(questions, known or {}, deliver)
    finally:
        await session.close()
    assert not markers, "some questions were never answered"
    return asked
