"""One request from the wire to its answer: admin pages, faults, account, reading or writing."""

import asyncio
import secrets
import time
import traceback
from typing import Any

from crashlab.provider import forms, permissions, plain, reading, searching
from crashlab.provider.accounts import Account, Unauthenticated, authenticate, key_of
from crashlab.provider.admin import Admin
from crashlab.provider.answers import Outcome, Refused, before_the_layer, error, invalid
from crashlab.provider.book import Book
from crashlab.provider.due import DueWork
from crashlab.provider.faults import Arrival, Fault, Faults
from crashlab.provider.shelf import API_VERSION, Call, Shelf
from crashlab.provider.webhooks import Webhooks
from crashlab.provider.wire import Request, Response
from crashlab.provider.writing import Writer

_ADMIN = ("/ledger", "/_faults", "/_settings", "/_schedule", "/_requests")


class Provider:
    """`handle` is the server's handler; `run` does the work that comes due."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._faults = Faults()
        self._webhooks = Webhooks(book)
        self._writer = Writer(book, self._committed)
        self._due = DueWork(book, self._committed, self._writer.executed_late)
        self.admin = Admin(book, self._faults)

    async def run(self) -> None:
        await self._due.run()

    def _committed(self, shelf: Shelf) -> None:
        self._due.wake()
        self._webhooks.committed(shelf)

    async def handle(self, request: Request) -> Response | None:
        if request.path == "/healthz":
            return Response.json(200, {"status": "ok"})
        if request.path in _ADMIN:
            return await self._administer(request)
        request_id = f"req_{secrets.token_hex(7)}"
        began = time.time()
        fault = Fault()
        headers = {"Request-Id": request_id, "Stripe-Version": API_VERSION}
        try:
            arrival = _arrival(request)
            fault = await self._pick(arrival)
            if fault.latency_ms:
                await asyncio.sleep(fault.latency_ms / 1000)
            outcome, more = await self._answered(request, arrival, fault, request_id)
            headers |= more
        except Unauthenticated as problem:
            outcome = Outcome(401, error("invalid_request_error", str(problem)))
        except Refused as refused:
            outcome = Outcome(refused.status, refused.body)
            headers |= refused.headers
        except Exception:  # noqa: BLE001 (a bug of ours must look like one, not like a lost answer)
            traceback.print_exc()
            outcome = Outcome(501, error("api_error", "The simulator has a bug; see its output."))
        self.admin.journal.append(
            {
                "at": began,
                "method": request.method,
                "path": request.path,
                "query": request.query,
                "idem_key": request.headers.get("idempotency-key"),
                "request_id": request_id,
                "status": outcome.status if outcome else None,
                "replayed": "Idempotent-Replayed" in headers,
            }
        )
        if fault.hold_seconds:
            await asyncio.sleep(fault.hold_seconds)
        if outcome is None or fault.drop is not None:
            return None
        if key := request.headers.get("idempotency-key"):
            headers["Idempotency-Key"] = key
        return Response.json(outcome.status, outcome.body, headers)

    async def _pick(self, arrival: Arrival) -> Fault:
        before = {rule.id: rule.seen for rule in self._faults.rules}
        fault = self._faults.pick(arrival)
        for rule in self._faults.rules:
            bounded = rule.nth is not None or rule.times is not None
            if bounded and rule.seen != before.get(rule.id):
                await self.admin.remember(rule)
        return fault

    async def _answered(
        self, request: Request, arrival: Arrival, fault: Fault, request_id: str
    ) -> tuple[Outcome | None, dict[str, str]]:
        if fault.drop == "before" and fault.commit_after_seconds is None:
            return None, {}
        account = authenticate(request.headers)
        if fault.status is not None:
            raise before_the_layer(fault.status, fault.retry_after, fault.code)
        permissions.check(self._book.reader, key_of(request.headers), request.method, request.path)
        if request.method in ("POST", "DELETE"):
            call = Call(
                account,
                request.method,
                request.path,
                arrival.params,
                arrival.idem_key,
                request_id,
                fault,
                request.headers.get("x-lab-intent"),
            )
            return await self._writer.answer(call)
        if request.method != "GET":
            raise Refused(
                405, error("invalid_request_error", "Only GET, POST and DELETE are known here.")
            )
        return Outcome(200, self._read(request.path, account, arrival.params, fault)), {}

    def _read(
        self, path: str, account: Account, params: dict[str, Any], fault: Fault
    ) -> dict[str, Any]:
        if path == "/v1/account":
            return reading.account_document(account)
        if path.startswith("/crm/customers/"):
            return plain.customer_card(path.rpartition("/")[2])
        resource, _, last = path.removeprefix("/v1/").partition("/")
        if last == "search" and resource in searching.SEARCHABLE:
            return searching.answer(self._book.reader, account, resource, params, fault)
        return reading.answer(self._book.reader, account, path, params, fault)

    async def _administer(self, request: Request) -> Response:
        try:
            params = forms.decode(request.query)
            if request.body:
                params = plain.parse(request.body)
            return Response.json(200, await self.admin.answer(request.method, request.path, params))
        except Refused as refused:
            return Response.json(refused.status, refused.body)


def _arrival(request: Request) -> Arrival:
    """The parameters, from the query, a form body, or the JSON body of the plain tools."""
    body = request.body.decode("utf-8", "replace")
    if request.method in ("GET", "DELETE"):
        params, text = forms.decode(request.query), request.query
    elif request.path in plain.ENDPOINTS:
        params, text = plain.parse(request.body), body
    else:
        params, text = forms.decode(body), body
    key = request.headers.get("idempotency-key")
    if key is not None and len(key) > 255:
        raise invalid("Idempotency keys take up to 255 characters.")
    return Arrival(request.method, request.path, key, params, text)
