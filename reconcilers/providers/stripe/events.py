"""Class E: the log of events, read once for many questions, and every hit read again by id.

An event names the key of the request that caused it (`request.idempotency_key`) and shows the
object as it was then. The log goes back 30 days and promises no consistency: it finds, and never
proves that there is nothing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from reconcilers.evidence import CLOCK_SLACK, Look, Sighting
from reconcilers.providers.base import ProviderError, Question
from reconcilers.providers.stripe.objects import OBJECTS, marker_of, mode_of
from reconcilers.providers.stripe.reader import Missing, Page, Reader
from reconcilers.providers.stripe.singles import MOST_READ_AGAIN, look_of, read_again

RETENTION: Final = timedelta(days=30)
#: Events are large and many; a hundred pages of them are ten thousand.
MOST_PAGES: Final = 100

Done = Callable[[Question, Look], Awaitable[None]]
#: By marker and object id, the object as the event shows it.
Rumours = dict[str, dict[str, Mapping[str, Any]]]


async def read_events(
    reader: Reader, kind: str, questions: Sequence[Question], *, account_seen: str, done: Done
) -> None:
    """Answer every question by the events about one kind of object; `done` once for each."""
    started_at = reader.gate.now()
    begins = min(question.window_from for question in questions) - CLOCK_SLACK
    begins = max(begins, started_at - RETENTION)
    wanted = frozenset(question.marker for question in questions)
    params: dict[str, Any] = {
        "types": list(OBJECTS[kind].events),
        "limit": 100,
        "created": {"gte": int(begins.timestamp())},
    }
    rumours: Rumours = {}
    pages: list[Page] = []
    failed: ProviderError | None = None
    try:
        while len(pages) < MOST_PAGES:
            page = await reader.get("events", params, endpoint="events")
            pages.append(page)
            data = page.body.get("data")
            if not isinstance(data, list):
                raise ProviderError("an answer that is no page of events")
            _listen(data, kind, wanted, rumours, reader.mode)
            if not page.body.get("has_more") or not data:
                break
            params["starting_after"] = data[-1]["id"]
        else:
            failed = ProviderError(f"there are more than {MOST_PAGES * 100} events to read")
    except ProviderError as problem:
        failed = problem
    except Missing:
        failed = ProviderError("404, the log of events cannot be read", status=404)
    for question in questions:
        sightings: list[Sighting] = []
        mine = pages[-1:]
        error = failed
        for rumour in list(rumours.get(question.marker, {}).values())[:MOST_READ_AGAIN]:
            read, seen, unread = await read_again(reader, question, rumour, "an event")
            error = unread or error
            mine = [*mine, read] if read is not None else mine
            if seen is not None and seen.marker in {question.marker, None}:
                sightings.append(_named(seen, question.marker))
        look = look_of(
            reader,
            question,
            ("events", "E", "GET /v1/events"),
            started_at=started_at,
            account_seen=account_seen,
            sightings=sightings,
            pages=mine,
            error=error,
            exhaustive=False,
        )
        await done(question, look)


def _listen(
    events: Sequence[Mapping[str, Any]],
    kind: str,
    wanted: frozenset[str],
    rumours: Rumours,
    mode: str,
) -> None:
    """Note whatever names one of our keys: as the request's key, or in the object's metadata."""
    for event in events:
        body = (event.get("data") or {}).get("object") or {}
        if body.get("object") != kind or mode_of(event) not in {"", mode}:
            continue
        key = (event.get("request") or {}).get("idempotency_key")
        marker = marker_of(body) or key
        if marker in wanted and isinstance(body.get("id"), str):
            rumours.setdefault(str(marker), {}).setdefault(body["id"], body)


def _named(seen: Sighting, marker: str) -> Sighting:
    """The key of the request that made it is ours, though the object itself does not hold it."""
    if seen.marker is not None:
        return seen
    return Sighting(**{**vars(seen), "marker": marker})
