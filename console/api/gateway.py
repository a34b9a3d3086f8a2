"""The API's front door: a small ASGI application that runs before Django.

What it answers itself (`console.api.addresses`) pays no per-request Django price; every other
request goes on to the pages. One request passes: address, method, credential, body bounds, handler.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any, Final

from console.api import bodies, problems
from console.api.bodies import ClientGone, Receive
from console.api.process import Process
from console.api.requests import Answer, Caller, Request
from console.api.routes import Route, Table
from operations.actors import Runtime

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)

#: Below these prefixes every address is the API's, so that an unknown one is a problem document.
_OWN: Final = ("/api/", "/v1/", "/.well-known/", "/hooks/")
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}").fullmatch
_COMMON_HEADERS: Final = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class Gateway:
    """ASGI: the API's addresses here, everything else in `pages`."""

    def __init__(self, pages: App, table: Table, process: Process) -> None:
        self.pages = pages
        self.table = table
        self.process = process

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, or the server's lifespan."""
        if scope["type"] == "lifespan":
            await self.process.lifespan(receive, send)
            return
        if scope["type"] != "http":
            await self.pages(scope, receive, send)
            return
        raw_path = scope.get("raw_path") or scope["path"].encode()
        address = self.table.find(raw_path)
        if address is None and not scope["path"].startswith(_OWN):
            await self.pages(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self.process)
        try:
            if address is None:
                raise problems.not_found("There is no such address.")
            found = address.methods.get("GET" if scope["method"] == "HEAD" else scope["method"])
            if found is None:
                if scope["method"] == "OPTIONS":
                    await exchange.write(204, b"", [(b"allow", address.allowed.encode())])
                    return
                raise problems.method_not_allowed(scope["method"], address.allowed)
            await exchange.serve(*found, address.params)
        except ClientGone:
            exchange.finish(499)
        except problems.Problem as problem:
            await exchange.refuse(problem)
        except Exception:
            log.exception("%s failed", exchange.request_id)
            await exchange.refuse(problems.internal_error(exchange.request_id))


class _Exchange:
    """One request and its answer."""

    __slots__ = (
        "caller",
        "headers",
        "process",
        "receive",
        "request_id",
        "route",
        "scope",
        "send",
        "started",
        "written",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, process: Process) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.process = process
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        self.request_id = given.decode() if _REQUEST_ID(given) else secrets.token_hex(8)
        self.started = time.perf_counter()
        self.route = "unrouted"
        self.caller: Caller = None
        self.written = False

    async def serve(self, route: Route, is_async: bool, params: Any) -> None:
        """Check the credential and the body's bounds, call the handler, write its answer."""
        self.route = route.path
        if route.who != "anyone":
            self.caller = await self._authenticate(route)
        request = Request(
            method=self.scope["method"],
            path=self.scope["path"],
            params=params,
            query_string=self.scope["query_string"],
            headers=self.headers,
            request_id=self.request_id,
            process=self.process,
            caller=self.caller,
        )
        if route.has_body:
            sent = await bodies.read(self.receive, self.headers, route.limit)
            if sent:
                request.media_type = bodies.media_type(self.headers, route.media)
            request.body = bodies.unpack(sent, self.headers, route.limit)
        if route.member is not None:
            answer = await self.process.groups.run(route, request)
        elif is_async:
            answer = await self._until_gone(route.handler(request))
        else:
            answer = await self.process.workers.run(route.handler, request)
        if answer.stream is not None:
            await self._stream(answer, answer.stream)
            return
        headers = [(b"content-type", answer.content_type)]
        headers += [
            (name.lower().encode(), value.encode()) for name, value in answer.headers.items()
        ]
        await self.write(answer.status, answer.encode(), headers)

    async def refuse(self, problem: problems.Problem) -> None:
        """Write a problem, unless an answer is on its way already."""
        if not self.written:
            await self.write(problem.status, problem.encode(), problem.header_list(), problem.code)

    async def write(
        self, status: int, body: bytes, headers: list[tuple[bytes, bytes]], code: str = ""
    ) -> None:
        """Write a whole answer."""
        self.written = True
        await self.send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    *headers,
                    *_COMMON_HEADERS,
                    (b"content-length", str(len(body)).encode()),
                    (b"x-request-id", self.request_id.encode()),
                ],
            }
        )
        shown = b"" if self.scope["method"] == "HEAD" else body
        await self.send({"type": "http.response.body", "body": shown})
        self.finish(status, code)

    def finish(self, status: int, code: str = "") -> None:
        """Count and log what was answered: never bodies, never credentials."""
        took = time.perf_counter() - self.started
        method = self.scope["method"]
        self.process.metrics.answered(method, self.route, status, took)
        level = logging.DEBUG if status < 400 else logging.INFO
        if log.isEnabledFor(level):
            name = self.caller.name if isinstance(self.caller, Runtime) else "-"
            log.log(
                level,
                "%s %s %s %d %s %.1f ms %s",
                self.request_id,
                method,
                self.route,
                status,
                code or "-",
                took * 1000,
                name,
            )

    async def _authenticate(self, route: Route) -> Caller:
        caller = await self.process.callers.caller(self.headers.get(b"authorization", b""))
        if isinstance(caller, Runtime):
            if route.who == "reviewer":
                raise problems.scope_missing(
                    "This needs a reviewer token; an API key never decides."
                )
            if route.scope not in caller.scopes:
                raise problems.scope_missing(f"The key lacks the scope {route.scope}.")
        elif route.who == "runtime":
            raise problems.scope_missing("This needs the API key of an agent runtime.")
        return caller

    async def _until_gone(self, handling: Awaitable[Answer]) -> Answer:
        """The handler's answer, or ClientGone as soon as nobody waits for it any more."""
        handler = asyncio.ensure_future(handling)
        gone = asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait({handler, gone}, return_when=asyncio.FIRST_COMPLETED)
            if handler.done():
                return handler.result()
            raise ClientGone
        finally:
            handler.cancel()
            gone.cancel()

    async def _gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def _stream(self, answer: Answer, chunks: AsyncGenerator[bytes, None]) -> None:
        """Write a stream until it ends or its client hangs up."""
        headers = [(b"content-type", answer.content_type), *_COMMON_HEADERS]
        headers += [
            (name.lower().encode(), value.encode()) for name, value in answer.headers.items()
        ]
        self.written = True
        await self.send(
            {"type": "http.response.start", "status": answer.status, "headers": headers}
        )
        gone = asyncio.ensure_future(self._gone())
        try:
            while True:
                chunk = asyncio.ensure_future(anext(chunks, None))
                await asyncio.wait({chunk, gone}, return_when=asyncio.FIRST_COMPLETED)
                if gone.done() or (text := await chunk) is None:
                    chunk.cancel()
                    # A generator that is still running cannot be closed.
                    await asyncio.wait({chunk})
                    break
                await self.send({"type": "http.response.body", "body": text, "more_body": True})
        finally:
            gone.cancel()
            await chunks.aclose()
            self.finish(answer.status)
        await self.send({"type": "http.response.body", "body": b""})
