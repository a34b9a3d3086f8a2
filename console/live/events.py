"""`GET /events?topics=…`: the stream of one browser tab, for whoever is signed in."""

from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user

from console.api import problems
from console.api.requests import Answer, Request
from console.live.hub import MOST_CLIENTS
from operations.ids import parse_handle

TOPICS = ("ops", "approvals", "incidents")
_HANDLES = ("op", "apr", "inc")


async def events(request: Request) -> Answer:
    """A stream of names and ids; the page fetches what it shows under its own permissions."""
    process = request.process
    query = request.query("topics", "lastEventId")
    topics = frozenset(filter(None, query.get("topics", "").split(",")))
    for topic in topics:
        if topic not in TOPICS and not any(parse_handle(kind, topic) for kind in _HANDLES):
            raise problems.invalid(f"Topics are {', '.join(TOPICS)} or ids.", "?topics")
    session_key = _session_key(request.headers.get(b"cookie", b""))
    if not await process.side.run(is_signed_in, session_key):
        raise problems.unauthenticated("Sign in to the console first.")
    if process.hub.count >= MOST_CLIENTS:
        raise problems.unavailable("Too many live views are open.")

    async def may_go_on() -> bool:
        try:
            return await process.side.run(is_signed_in, session_key)
        except problems.Problem:
            return True  # the database is away, which says nothing about the session

    seen = request.headers.get(b"last-event-id", b"").decode("latin-1") or query.get(
        "lastEventId", ""
    )
    return Answer(
        200,
        b"",
        headers={"X-Accel-Buffering": "no"},
        content_type=b"text/event-stream; charset=utf-8",
        stream=process.hub.stream(
            topics, int(seen) if seen.isascii() and seen.isdigit() else None, may_go_on
        ),
    )


def is_signed_in(session_key: str | None) -> bool:
    """Whether the session is there, not expired, and its person still active."""
    if not session_key:
        return False
    engine: Any = import_module(settings.SESSION_ENGINE)
    user = get_user(SimpleNamespace(session=engine.SessionStore(session_key)))  # type: ignore[arg-type]
    return bool(user.is_authenticated)


def _session_key(cookie_header: bytes) -> str | None:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(cookie_header.decode("latin-1"))
    except CookieError:
        return None
    morsel = cookies.get(settings.SESSION_COOKIE_NAME)
    return morsel.value if morsel else None
