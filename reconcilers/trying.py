"""Trying one look-up of one account by hand: a person sees what it answers, and nothing is kept."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import connection

from operations import rows
from reconcilers import accounts, findings, keyring, registry
from reconcilers.breakers import Breakers
from reconcilers.evidence import Look, Way
from reconcilers.limits import Limiter
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import (
    AccountAccess,
    Answer,
    KnownObject,
    Provider,
    ProviderError,
    Question,
)
from reconcilers.turns import AccountGate, DatabaseClock

logger = logging.getLogger(__name__)

#: A person waits for the page.
SECONDS: Final = 20.0


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The look-up as it was asked, every look it made, or why none was made."""

    way: Way
    object_kind: str
    key: str
    looks: tuple[Look, ...] = ()
    problem: str = ""


class CannotTry(ValueError):
    """The look-up does not exist, or must not be tried; the message says which."""


def ways_to_try(account: ProviderAccount) -> tuple[Way, ...]:
    """The account's look-ups for its provider's usual kind of object."""
    provider = registry.provider_of(account.kind)
    return provider.ways_of(provider.default_object, account.config)


def try_lookup(
    account: ProviderAccount,
    *,
    lookup: str,
    key: str,
    object_kind: str = "",
    object_id: str = "",
    hours: int = 24,
) -> Tried:
    """Ask about `key` (or `object_id`) as if it had been sent within the last `hours`.

    Uses the account's own limits. Raises CannotTry; what fails at the provider is in the answer.
    """
    provider = registry.provider_of(account.kind)
    kind = object_kind or provider.default_object
    ways = {way.name: way for way in provider.ways_of(kind, account.config)}
    if lookup not in ways:
        raise CannotTry(f"This account has no look-up called {lookup} for {kind or 'anything'}.")
    way = ways[lookup]
    if way.opt_in or way.lookup_class in {"R", "T"}:
        raise CannotTry(f"{lookup} writes at the provider: it is never made as a test.")
    if not key and not object_id:
        raise CannotTry("Give a key or an object's id to look for.")
    tried = Tried(way=way, object_kind=kind, key=key)
    try:
        access = accounts.access_to(account)
    except keyring.Unreadable as error:
        return Tried(way=way, object_kind=kind, key=key, problem=str(error))
    with connection.cursor() as cur:
        known = findings.known_objects(cur, account.id)
        clock = DatabaseClock.just_read(rows.clock(cur))
    question = Question(
        operation_id=uuid4(),
        marker=key,
        object_kind=kind,
        window_from=clock.now() - timedelta(hours=hours),
        object_ids=(object_id,) if object_id else (),
        lookups=(lookup,),
        # Behind us, so that the positive control is made as it would be.
        settles_at=clock.now() - timedelta(seconds=1),
    )
    looks, problem = asyncio.run(_ask(provider, account, access, question, known, clock))
    return Tried(way=tried.way, object_kind=kind, key=key, looks=looks, problem=problem)


async def _ask(
    provider: Provider,
    account: ProviderAccount,
    access: AccountAccess,
    question: Question,
    known: Mapping[str, KnownObject],
    clock: DatabaseClock,
) -> tuple[tuple[Look, ...], str]:
    limiter, breakers = Limiter(settings.REDIS_URL), Breakers(settings.REDIS_URL)
    limits = {**provider.limits_in(account.environment), **account.config.get("limits", {})}
    gate = AccountGate(account.id, limits, limiter=limiter, breakers=breakers, clock=clock)
    given: list[Look] = []

    async def deliver(answer: Answer) -> None:
        given.extend(answer.looks)

    problem = ""
    try:
        async with asyncio.timeout(SECONDS):
            session = provider.open(access, gate)
            try:
                await session.ask([question], known, deliver)
            finally:
                await session.close()
    except TimeoutError:
        problem = f"No answer within {SECONDS:.0f} s."
    except ProviderError as error:
        problem = str(error)
    except Exception as error:
        logger.exception("the %s provider failed", account.kind)
        problem = f"A defect in the {account.kind} provider ({type(error).__name__})."
    finally:
        await limiter.close()
        breakers.close()
    return tuple(given), problem
