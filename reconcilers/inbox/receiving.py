"""A delivery at the door: is it the provider's, and is it ours? Then it is stored as it came.

Nothing is looked up and nothing is concluded here, so that the answer never waits for anybody.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from reconcilers import accounts, keyring, registry
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import AccountAccess, Provider
from reconcilers.providers.hooks import Hook, HookRefused, NoHooks

#: Accounts whose secrets are tried to say whose signature it is, when it is not this one's.
_OTHERS_TRIED: Final = 20

# Two messages of one type that show the object alike are one piece of news (Stripe sends such
# pairs under two ids): the second needs no look of its own.
_STORE: Final = """
INSERT INTO reconcilers_providerevent AS kept
    (account_id, event_id, type, object_kind, object_id, change_sha256, idem_key, mode,
     account_named, api_version, happened_at, sighting, body, standing, reason, times, asks,
     received_at, last_received_at)
VALUES (%(account)s, %(event_id)s, %(type)s, %(kind)s, %(object)s, %(change)s, %(key)s, %(mode)s,
        %(named)s, %(version)s, %(happened)s, %(sighting)s::jsonb, %(body)s,
        CASE WHEN %(standing)s = 'received' AND EXISTS (
                 SELECT FROM reconcilers_providerevent twin
                  WHERE twin.account_id = %(account)s AND twin.object_id = %(object)s
                    AND twin.type = %(type)s AND twin.change_sha256 = %(change)s
                    AND twin.event_id <> %(event_id)s
                    AND twin.standing IN ('received', 'asked', 'done', 'waiting'))
             THEN 'repeated' ELSE %(standing)s END,
        %(reason)s, 1, 0, clock_timestamp(), clock_timestamp())
ON CONFLICT (account_id, event_id) DO UPDATE
   SET times = kept.times + 1, last_received_at = clock_timestamp()
RETURNING standing, times
"""
_REFUSE: Final = """
INSERT INTO reconcilers_hookrefusal AS known
    (account_id, cause, detail, count, first_at, last_at, last_sha256)
VALUES (%s, %s, %s, 1, clock_timestamp(), clock_timestamp(), %s)
ON CONFLICT (account_id, cause) DO UPDATE
   SET count = known.count + 1, last_at = clock_timestamp(), detail = excluded.detail,
       last_sha256 = excluded.last_sha256
"""


class NoSuchAddress(LookupError):
    """No account of this kind has this address."""


@dataclass(frozen=True)
class Received:
    """What became of a delivery. `times` counts those of this event, this one included."""

    event_id: str
    standing: str
    times: int


def receive(kind: str, account_id: str, headers: Mapping[str, str], body: bytes) -> Received:
    """Verify, store, and nothing else. Committed when this returns.

    Raises NoSuchAddress; or HookRefused, which is counted for the account and keeps no body.
    """
    account, provider = _address(kind, account_id)
    access = accounts.access_to(account)
    try:
        hook = provider.read_hook(access, headers, body)
    except NoHooks as nobody:
        raise NoSuchAddress(str(nobody)) from None
    except HookRefused as refused:
        refused = _whose(refused, provider, account, headers, body)
        with connection.cursor() as cur:
            digest = sha256(body).digest()
            cur.execute(_REFUSE, (account.id, refused.cause, refused.detail, digest))
        raise refused from None
    standing, reason = _belongs(hook, access)
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute(_STORE, _row(account, hook, body, standing, reason))
        standing, times = cur.fetchone()
    return Received(hook.event_id, standing, times)


def _address(kind: str, account_id: str) -> tuple[ProviderAccount, Provider]:
    try:
        wanted = UUID(account_id)
    except ValueError:
        raise NoSuchAddress("an account's address ends in its id") from None
    account = ProviderAccount.objects.filter(kind=kind, pk=wanted).first()
    provider = registry.providers().get(kind)
    if account is None or provider is None:
        raise NoSuchAddress(f"there is no {kind} account of this id")
    return account, provider


def _belongs(hook: Hook, access: AccountAccess) -> tuple[str, str]:
    """How it stands: to be worked on, or kept and left alone, and why."""
    if hook.unreadable:
        return "unreadable", hook.unreadable
    if hook.mode != access.environment:
        return "wrong_mode", f"a {hook.mode} event at the address of a {access.environment} account"
    connected = str(access.config.get("connected_account") or "")
    ours = connected or access.external_id
    if hook.account and ours and hook.account != ours:
        return "wrong_account", f"it is of {hook.account}, and this account is {ours}"
    if connected and not hook.account:
        return "wrong_account", f"it is the platform's own, and this account reads {connected}"
    if hook.sighting is None:
        return "not_ours", "it is about an object that no tool makes"
    if not (hook.marker or hook.request_key):
        return "not_ours", "it names no key"
    return "received", ""


def _row(
    account: ProviderAccount, hook: Hook, body: bytes, standing: str, reason: str
) -> dict[str, Any]:
    seen = hook.sighting
    return {
        "account": account.id,
        "event_id": hook.event_id[:255],
        "type": hook.type[:255],
        "kind": seen.kind if seen else "",
        "object": seen.id if seen else "",
        "change": hook.change or None,
        "key": (hook.marker or hook.request_key or None),
        "mode": hook.mode,
        "named": hook.account[:255],
        "version": hook.api_version[:255],
        "happened": hook.happened_at,
        "sighting": json.dumps(asdict(seen), default=str) if seen else None,
        "body": body,
        "standing": standing,
        "reason": reason,
    }


def _whose(
    refused: HookRefused,
    provider: Provider,
    account: ProviderAccount,
    headers: Mapping[str, str],
    body: bytes,
) -> HookRefused:
    """A signature that fits another account's secret says that two endpoints are mixed up."""
    if refused.cause != "no_match":
        return refused
    others = ProviderAccount.objects.filter(kind=account.kind).exclude(pk=account.pk)
    for other in others.order_by("created_at")[:_OTHERS_TRIED]:
        try:
            provider.read_hook(_only_secrets(other), headers, body)
        except (HookRefused, keyring.Unreadable):
            continue
        return HookRefused("other_account", f"{other.environment} account {other.name}")
    return refused


def _only_secrets(account: ProviderAccount) -> AccountAccess:
    return replace(accounts.access_to(account), config={})
