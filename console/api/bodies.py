"""Reading a request's body within its bounds: size, content type, gzip."""

import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from console.api import problems

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BODY_LIMIT: Final = 1024 * 1024
BATCH_LIMIT: Final = 8 * 1024 * 1024

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class ClientGone(Exception):
    """The client hung up before its request was whole; there is nobody to answer."""


async def read(receive: Receive, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """The whole body as sent; 413 as soon as it is known to be too large."""
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced) > limit:
        raise problems.too_large(limit)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise problems.too_large(limit)
        return body
    chunks: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise problems.too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()


def media_type(headers: Mapping[bytes, bytes], accepted: tuple[str, ...]) -> str:
    """The body's media type, one of `accepted`; a request that names none means JSON."""
    name, _, parameters = headers.get(b"content-type", b"").decode("latin-1").partition(";")
    name = name.strip().lower() or JSON
    if name not in accepted:
        raise problems.unsupported_media_type(f"Send {' or '.join(accepted)}, not {name[:100]!r}.")
    for parameter in parameters.lower().split(";"):
        key, _, value = parameter.strip().partition("=")
        if key == "charset" and value.strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise problems.unsupported_media_type("JSON travels as UTF-8.")
    return name


def unpack(body: bytes, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """The body without its content encoding; a gzip bomb stops at `limit` bytes of output."""
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise problems.unsupported_media_type(
            f"The encoding {encoding[:50]!r} is not read; gzip is."
        )
    unpacked: list[bytes] = []
    room = limit
    while body:
        reader = zlib.decompressobj(_GZIP_WINDOW)
        try:
            part = reader.decompress(body, room + 1)
        except zlib.error as error:
            raise problems.malformed(f"The body is not gzip: {error}.") from None
        room -= len(part)
        if room < 0:
            raise problems.too_large(limit)
        if not reader.eof:
            raise problems.malformed("The gzip body is cut off.")
        unpacked.append(part)
        body = reader.unused_data
    return b"".join(unpacked)
