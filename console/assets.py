"""Static files, served from memory in front of Django, with versioned addresses.

There is no build step and no collected folder: files are found as Django finds them, read once,
and named ``/static/<path>?v=<digest>``. A request with the right version may be cached for ever; a
request without one (a module that imports its neighbour) is answered by its ETag.
"""

import gzip
import hashlib
import mimetypes
import os
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.core.exceptions import SuspiciousFileOperation

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_COMPRESSIBLE = ("text/", "application/javascript", "application/json", "image/svg+xml")


class Asset(NamedTuple):
    """One file in memory."""

    body: bytes
    gzipped: bytes | None
    content_type: str
    version: str


def _load(path: str) -> Asset | None:
    try:
        found = finders.find(path)
    except SuspiciousFileOperation:  # ../settings.py
        return None
    if not isinstance(found, str) or not os.path.isfile(found):
        return None
    with open(found, "rb") as file:
        body = file.read()
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    gzipped = gzip.compress(body, mtime=0) if kind.startswith(_COMPRESSIBLE) else None
    return Asset(
        body=body,
        gzipped=gzipped if gzipped and len(gzipped) < len(body) else None,
        content_type=f"{kind}; charset=utf-8" if kind.startswith(_COMPRESSIBLE) else kind,
        version=hashlib.sha256(body).hexdigest()[:16],
    )


_cached = lru_cache(maxsize=1024)(_load)


def load(path: str) -> Asset | None:
    """Find a static file by its path below STATIC_URL; while debugging it is read anew."""
    return _load(path) if settings.DEBUG else _cached(path)


class VersionedStorage(StaticFilesStorage):
    """Names static files by content, so that a new release is never mixed with cached old files."""

    def url(self, name: str | None) -> str:
        """The file's address with its version; an unknown name stays as it is."""
        asset = load(name) if name else None
        address = super().url(name)
        return f"{address}?v={asset.version}" if asset else address


class Assets:
    """ASGI: answers requests below STATIC_URL and hands everything else on."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.prefix = str(settings.STATIC_URL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"].startswith(self.prefix):
            await _respond(scope, send, load(scope["path"].removeprefix(self.prefix)))
        else:
            await self.app(scope, receive, send)


async def _respond(scope: Scope, send: Send, asset: Asset | None) -> None:
    sent = dict(scope["headers"])
    body, status = b"", 200
    headers = [(b"x-content-type-options", b"nosniff")]
    if scope["method"] not in {"GET", "HEAD"}:
        status = 405
    elif asset is None:
        status = 404
    else:
        etag = f'"{asset.version}"'.encode()
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("v")
        lasting = asked == [asset.version]
        headers += [
            (b"etag", etag),
            (b"vary", b"accept-encoding"),
            (b"cache-control", b"public, max-age=31536000, immutable" if lasting else b"no-cache"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]
        if sent.get(b"if-none-match") == etag:
            status = 304
        else:
            body = asset.body
            if asset.gzipped is not None and b"gzip" in sent.get(b"accept-encoding", b""):
                body = asset.gzipped
                headers.append((b"content-encoding", b"gzip"))
            headers.append((b"content-type", asset.content_type.encode()))
    if status != 304:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
