"""One object, read by the id that a person names, before that person signs that it happened.

Reads and keeps nothing: what it gives is digested into the person's statement. It speaks to the
provider outside every transaction, within the account's limits, and for a few seconds at most:
whoever cannot be asked now must not keep a person from settling.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection

from operations import catalogue, rows
from operations.documents import rfc3339
from operations.rows import LockedOperation
from reconcilers import accounts, keyring, registry
from reconcilers.breakers import Breakers
from reconcilers.evidence import Look, Outcome, Sighting
from reconcilers.limits import Limiter
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import Answer, Provider, ProviderError, Question
from reconcilers.turns import AccountGate, DatabaseClock

#: A person waits for this page; a slow provider is said to be slow.
PATIENCE_SECONDS: Final = 8.0
TYPE: Final = "urn:countersign:fetched-object:v1"


@dataclass(frozen=True, kw_only=True)
class FetchedObject:
    """What the provider showed under one id: `found`, `missing` or `cannot_look` (see `reason`).

    `marker` is `ours`, `none` or `other`: whether the object carries this operation's key. Amounts
    are minor units as the provider gave them; `answer_sha256` digests its raw answer.
    """

    outcome: str
    id: str
    provider: str
    account: str
    mode: str
    fetched_at: str
    reason: str = ""
    kind: str = ""
    status: str = ""
    detail: str = ""
    amount_minor: int | None = None
    currency: str | None = None
    marker: str = "none"
    answer_sha256: str | None = None

    def document(self) -> dict[str, Any]:
        """As it is digested and kept."""
        return {"type": TYPE, **asdict(self)}


def fetch(
    op_id: UUID, object_id: str, *, seconds: float = PATIENCE_SECONDS
) -> FetchedObject | None:
    """Read the object now. None where there is no such operation; never raises for a provider."""
    with connection.cursor() as cur:
        op = rows.read(cur, op_id=op_id)
        if op is None:
            return None
        clock = DatabaseClock.just_read(rows.clock(cur))
        facts = catalogue.current(cur).facts(op.tool)
    here = list(ProviderAccount.objects.filter(environment=op.environment, namespace=op.namespace))
    account, blind = accounts.resolve(here, reconciler=facts.reconciler, provider=facts.provider)
    provider = registry.providers().get(account.kind) if account else None
    if account is None or provider is None:
        return _cannot(object_id, None, clock, blind or "There is no provider of this kind here.")
    if account.paused_at is not None:
        return _cannot(object_id, account, clock, f"Asking {account.name} is paused.")
    question = Question(
        operation_id=op.id,
        marker=op.idem_key,
        object_kind=facts.provider_object or provider.default_object,
        window_from=op.first_sent_at or op.created_at,
        object_ids=(object_id,),
        lookups=("get",),
    )
    try:
        looks = asyncio.run(_ask(account, provider, question, clock, seconds))
    except TimeoutError:
        return _cannot(
            object_id, account, clock, f"{account.name} did not answer within {seconds:g} seconds."
        )
    except (ProviderError, keyring.Unreadable) as error:
        return _cannot(object_id, account, clock, f"{error}.")
    return _told(op, object_id, account, provider, clock, looks)


async def _ask(
    account: ProviderAccount,
    provider: Provider,
    question: Question,
    clock: DatabaseClock,
    seconds: float,
) -> tuple[Look, ...]:
    limiter, breakers = Limiter(settings.REDIS_URL), Breakers(settings.REDIS_URL)
    limits: Mapping[str, float] = {
        **provider.limits_in(account.environment),
        **account.config.get("limits", {}),
    }
    gate = AccountGate(account.id, limits, limiter=limiter, breakers=breakers, clock=clock)
    looks: list[Look] = []

    async def deliver(answer: Answer) -> None:
        looks.extend(answer.looks)

    session = provider.open(accounts.access_to(account), gate)
    try:
        async with asyncio.timeout(seconds):
            await session.ask([question], {}, deliver)
    finally:
        await session.close()
        await limiter.close()
        breakers.close()
    return tuple(looks)


def _told(
    op: LockedOperation,
    object_id: str,
    account: ProviderAccount,
    provider: Provider,
    clock: DatabaseClock,
    looks: tuple[Look, ...],
) -> FetchedObject:
    seen = next((s for look in looks for s in look.sightings if s.id == object_id), None)
    read = next((look for look in looks if look.finished), looks[0] if looks else None)
    if read is None or not read.finished:
        reason = read.reason if read else "the provider gave no answer"
        return _cannot(object_id, account, clock, f"{reason}.")
    about: dict[str, Any] = {
        "id": object_id,
        "provider": provider.title,
        "account": read.account_seen or account.external_id or account.name,
        "mode": (seen.mode if seen else "") or read.mode,
        "fetched_at": _instant(read.ended_at),
        "answer_sha256": sha256(read.answer).hexdigest() if read.answer is not None else None,
    }
    if seen is None:
        if read.outcome is not Outcome.EMPTY:
            return _cannot(object_id, account, clock, "Another object answered.")
        return FetchedObject(outcome="missing", **about)
    return FetchedObject(outcome="found", **about, **_object(op, seen))


def _object(op: LockedOperation, seen: Sighting) -> dict[str, Any]:
    return {
        "kind": seen.kind,
        "status": seen.status,
        "detail": seen.detail,
        "amount_minor": seen.amount_minor,
        "currency": seen.currency,
        "marker": "none" if seen.marker is None else _whose(seen.marker == op.idem_key),
    }


def _whose(is_ours: bool) -> str:
    return "ours" if is_ours else "other"


def _cannot(
    object_id: str, account: ProviderAccount | None, clock: DatabaseClock, reason: str
) -> FetchedObject:
    return FetchedObject(
        outcome="cannot_look",
        id=object_id,
        provider=account.kind if account else "",
        account=(account.external_id or account.name) if account else "",
        mode=account.environment if account else "",
        fetched_at=_instant(clock.now()),
        reason=reason.replace("..", "."),
    )


def _instant(at: datetime) -> str:
    return rfc3339(at.astimezone(UTC)) or ""
