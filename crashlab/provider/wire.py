"""HTTP/1.1 on asyncio, with the one thing a server framework hides: an answer may be withheld.

A handler returns a `Response`, or None to close the socket without a word, which is what a
client sees when a response is lost after the effect was committed.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

MAX_BODY = 2 * 1024 * 1024
MAX_HEADERS = 200


@dataclass(frozen=True)
class Request:
    """One request. Header names are in lower case; `query` is still encoded."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, status: int, document: Any, headers: dict[str, str] | None = None) -> "Response":
        body = json.dumps(document, ensure_ascii=False).encode() + b"\n"
        return cls(status, body, headers or {})


Handler = Callable[[Request], Awaitable[Response | None]]


class _Malformed(Exception):
    pass


class Server:
    """Serves `handler` until `stop()`. Connections are kept alive as HTTP/1.1 says."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listens and answers the port (of use where `port` was 0)."""
        self._server = await asyncio.start_server(self._connection, host, port, backlog=512)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                request = await _read(reader)
            except (_Malformed, ValueError) as error:
                writer.write(_head(400, 0, {}, close=True))
                await writer.drain()
                raise ConnectionError from error
            if request is None:
                return
            response = await self._handler(request)
            if response is None:
                return
            close = request.headers.get("connection", "").lower() == "close"
            writer.write(_head(response.status, len(response.body), response.headers, close=close))
            writer.write(response.body)
            await writer.drain()
            if close:
                writer.close()
                await writer.wait_closed()
                return


async def _read(reader: asyncio.StreamReader) -> Request | None:
    line = await reader.readline()
    if not line:
        return None
    try:
        method, target, _ = line.decode("latin-1").split(" ", 2)
    except ValueError:
        raise _Malformed from None
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = await reader.readline()
        if line in (b"\r\n", b"\n", b""):
            break
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    else:
        raise _Malformed
    if "transfer-encoding" in headers:
        raise _Malformed
    length = int(headers.get("content-length") or 0)
    if not 0 <= length <= MAX_BODY:
        raise _Malformed
    body = await reader.readexactly(length) if length else b""
    path, _, query = target.partition("?")
    return Request(method.upper(), unquote(path), query, headers, body)


def _head(status: int, length: int, headers: dict[str, str], *, close: bool) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {length}"]
    if not any(name.lower() == "content-type" for name in headers):
        lines.append("Content-Type: application/json")
    lines.append(f"Connection: {'close' if close else 'keep-alive'}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
