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


def signature(secret: str, body: bytes, at: int) -> str:
    """The `Stripe-Signature` header: HMAC-SHA256 over `"{t}.{raw body}"`."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Webhooks:
    """Delivers to the endpoints in setting `webhooks`: `[{"url", "secret"}]`. Not durable: a lost
    delivery is something that a receiver must live with anyway."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._tasks: set[asyncio.Task[None]] = set()

    def committed(self, shelf: Shelf) -> None:
        targets = setting(self._book.reader, "webhooks", [])
        if not targets or not shelf.events:
            return
        events = list(shelf.events)
        fault = shelf.call.fault
        if fault.webhooks == "reversed":
            events.reverse()
        elif fault.webhooks == "twice":
            # Once more as it was, and once as a second event about the same change.
            events += [*events, *[event | {"id": new_id("evt")} for event in events]]
        elif fault.webhooks == "wrong_mode":
            events = [event | {"livemode": not event["livemode"]} for event in events]
        for target in targets:
            task = asyncio.create_task(self._deliver(target, events, fault.webhook_delay_seconds))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(
        self, target: dict[str, str], events: list[dict[str, Any]], delay: float
    ) -> None:
        await asyncio.sleep(delay)
        async with httpx.AsyncClient(timeout=_WAIT_SECONDS, trust_env=False) as client:
            for event in events:
                await _post(client, target, json.dumps(event).encode())


async def _post(client: httpx.AsyncClient, target: dict[str, str], body: bytes) -> None:
    for number in range(_TRIES):
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Stripe-Signature": signature(target["secret"], body, int(time.time())),
        }
        try:
            response = await client.post(target["url"], content=body, headers=headers)
            if response.is_success:
                return
        except httpx.HTTPError:
            pass
        await asyncio.sleep(2**number)
