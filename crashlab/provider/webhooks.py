"""Signed webhooks: delivered late, twice, out of order or in the wrong mode, as a rule says."""

import asyncio
import hashlib
import hmac
import json
import time
from typing import Any

import httpx

from crashlab.provider.book import Book
from crashlab.provider.shelf import Shelf, new_id, setting

_TRIES = 4
_WAIT_SECONDS = 10


def signature(body: bytes, at: int, *secrets: str) -> str:
    """The `Stripe-Signature` header: HMAC-SHA256 over `"{t}.{raw body}"`, one `v1` a secret."""
    signed = f"{at}.".encode() + body
    digests = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join([f"t={at}", *(f"v1={digest}" for digest in digests)])


class Webhooks:
    """Delivers to the endpoints in setting `webhooks`: `[{"url", "secret"}]`. Not durable: a lost
    delivery is something that a receiver must live with anyway."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._tasks: set[asyncio.Task[None]] = set()

    def committed(self, shelf: Shelf) -> None:
        fault, account = shelf.call.fault, shelf.call.account
        if not shelf.events or fault.webhooks == "lost":
            return
        events = _disturbed(list(shelf.events), fault.webhooks)
        for target in setting(self._book.reader, "webhooks", []):
            if target.get("account", account.id) != account.id:
                continue
            if target.get("livemode", account.livemode) != account.livemode:
                continue
            task = asyncio.create_task(
                self._deliver(target, events, fault.webhooks or "", fault.webhook_delay_seconds)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(
        self, target: dict[str, str], events: list[dict[str, Any]], how: str, delay: float
    ) -> None:
        await asyncio.sleep(delay)
        async with httpx.AsyncClient(timeout=_WAIT_SECONDS, trust_env=False) as client:
            for event in events:
                await _post(client, target, json.dumps(event).encode(), how)


def _disturbed(events: list[dict[str, Any]], how: str | None) -> list[dict[str, Any]]:
    if how == "reversed":
        events.reverse()
    elif how == "twice":
        # Once more as it was, and once as a second event about the same change.
        events += [*events, *[event | {"id": new_id("evt")} for event in events]]
    elif how == "wrong_mode":
        events = [event | {"livemode": not event["livemode"]} for event in events]
    elif how == "wrong_account":
        events = [event | {"account": "acct_sim_somebody_else"} for event in events]
    return events


async def _post(client: httpx.AsyncClient, target: dict[str, str], body: bytes, how: str) -> None:
    for number in range(_TRIES):
        # Each try is signed anew, with its own time.
        headers = {"Content-Type": "application/json; charset=utf-8"}
        headers["Stripe-Signature"] = _signed(target, body, how)
        sent = body.replace(b'": ', b'" : ') if how == "altered" else body
        try:
            response = await client.post(target["url"], content=sent, headers=headers)
            if response.is_success:
                return
        except httpx.HTTPError:
            pass
        await asyncio.sleep(2**number)


def _signed(target: dict[str, str], body: bytes, how: str) -> str:
    secrets = [target["secret"], *([target["old_secret"]] if "old_secret" in target else [])]
    if how == "forged":
        secrets = ["whsec_of_somebody_else"]
    return signature(body, int(time.time()) - (3600 if how == "stale" else 0), *secrets)
