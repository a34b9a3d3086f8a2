"""A lean HTTP/1.1 keep-alive client: the load generator must not be what is measured."""

import asyncio
from typing import NamedTuple


class Reply(NamedTuple):
    """Status and body of one answer."""

    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """One connection, one request at a time. Understands answers with a Content-Length only."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._answer: asyncio.Future[Reply] | None = None

    @classmethod
    async def open(cls, host: str, port: int) -> "Connection":
        """Connect."""
        _, protocol = await asyncio.get_running_loop().create_connection(cls, host, port)
        return protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is there."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """asyncio: a part of an answer."""
        self._buffer = self._buffer + data if self._buffer else data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._buffer[:head_end].lower()
        at = head.index(b"content-length:") + 15
        line_end = head.find(b"\r\n", at)
        length = int(head[at : line_end if line_end > 0 else None])
        body_at = head_end + 4
        if len(self._buffer) < body_at + length:
            return
        body = self._buffer[body_at : body_at + length]
        self._buffer = b""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Reply(int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the other side is gone."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("closed"))

    async def ask(self, request: bytes) -> Reply:
        """Send a request as built by `post` or `get` and wait for its answer."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("closed while idle")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


def post(path: bytes, key: bytes, body: bytes, kind: bytes = b"application/json") -> bytes:
    """The bytes of a POST."""
    return b"".join(
        (
            b"POST ", path, b" HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ", key,
            b"\r\nContent-Type: ", kind, b"\r\nContent-Length: ", str(len(body)).encode(),
            b"\r\n\r\n", body,
        )
    )  # fmt: skip


def get(path: bytes, key: bytes) -> bytes:
    """The bytes of a GET."""
    return b"".join(
        (b"GET ", path, b" HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ", key, b"\r\n\r\n")
    )
