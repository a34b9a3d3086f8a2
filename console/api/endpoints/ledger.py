"""The ledger over the API: checkpoint, entries, proofs, and the keys that verify them."""

from collections.abc import Callable
from typing import Any, Final

from django.db import connection

from console.api import problems
from console.api.requests import Answer, Request, whole_number
from operations.ledger import checkpoints, reading
from operations.ledger.tree import TreeDamaged

_LARGEST: Final = 2**53 - 1
_TEXT: Final = b"text/plain; charset=utf-8"


def checkpoint(request: Request) -> Answer:
    """`GET /api/v1/ledger/checkpoint`: the newest signed note, as it was published."""
    request.query()
    note = _read(reading.checkpoint)
    if note is None:
        raise problems.not_found("No checkpoint has been published yet.")
    return Answer(200, note.encode(), content_type=_TEXT)


def entries(request: Request) -> Answer:
    """`GET /api/v1/ledger/entries?from=&to=`: entries [from, to), a thousand at most."""
    query = request.query("from", "to")
    begin = whole_number(query, "from", low=0, high=_LARGEST) or 0
    end = whole_number(query, "to", low=0, high=_LARGEST)
    wanted = _LARGEST if end is None else end
    items = _read(lambda cur: reading.page(cur, request.runtime.scope, begin, wanted))
    reached = begin + len(items)
    more = len(items) == reading.LARGEST_PAGE and reached < wanted
    return Answer(200, {"items": items, "next_cursor": str(reached) if more else None})


def inclusion(request: Request) -> Answer:
    """`GET /api/v1/ledger/proof/inclusion?index=&size=`."""
    query = request.query("index", "size")
    index = _needed(query, "index")
    size = whole_number(query, "size", low=1, high=_LARGEST)
    return Answer(200, _read(lambda cur: reading.inclusion(cur, index, size)))


def consistency(request: Request) -> Answer:
    """`GET /api/v1/ledger/proof/consistency?from=&to=`."""
    query = request.query("from", "to")
    begin = _needed(query, "from")
    end = whole_number(query, "to", low=1, high=_LARGEST)
    return Answer(200, _read(lambda cur: reading.consistency(cur, begin, end)))


def keys(request: Request) -> Answer:
    """`GET /.well-known/ledger-keys.json`: the origin, and the keys that sign its checkpoints."""
    with connection.cursor() as cur:
        found = checkpoints.vkeys(cur)
    if found is None:
        raise problems.not_found("The log has not begun yet.")
    origin, vkeys = found
    body = {"origin": origin, "vkeys": vkeys}
    return Answer(200, body, {"Cache-Control": "public, max-age=60"})


def _needed(query: Any, name: str) -> int:
    found = whole_number(query, name, low=0, high=_LARGEST)
    if found is None:
        raise problems.invalid(f"{name} is needed: a whole number.", f"?{name}")
    return found


def _read(work: Callable[[Any], Any]) -> Any:
    with connection.cursor() as cur:
        try:
            return work(cur)
        except reading.OutOfLog as error:
            raise problems.not_found(str(error)) from None
        except TreeDamaged:
            raise problems.Problem(
                503,
                "UNAVAILABLE",
                "Not available",
                "The stored hashes do not fit. An admin runs `manage.py check_ledger`.",
                retryable=True,
                retry_after_seconds=30,
            ) from None
