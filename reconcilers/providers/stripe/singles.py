"""Class A by an id that is known, and class C by search, each for one question."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from reconcilers.evidence import Look, Outcome, Sighting, Stage
from reconcilers.providers.base import ProviderError, Question
from reconcilers.providers.stripe.objects import MARKER, OBJECTS, kind_of, mode_of, sighting_of
from reconcilers.providers.stripe.reader import Missing, Page, Reader
from reconcilers.providers.stripe.scopes import parent_filter

#: More hits than this for one marker are read no further: two already are a duplicate.
MOST_READ_AGAIN: Final = 5

_ID: Final = re.compile(r"[A-Za-z]{2,4}_[A-Za-z0-9_]{1,250}")


@dataclass(frozen=True)
class _Reading:
    """One object by id: there (its body), gone (None), or not to be had (the error)."""

    page: Page | None = None
    error: ProviderError | None = None

    @property
    def body(self) -> Mapping[str, Any] | None:
        return None if self.page is None else self.page.body


def readable_ids(question: Question) -> tuple[str, ...]:
    """The known ids that can be read by their prefix. A parent's is not the effect's own."""
    return tuple(
        object_id
        for object_id in question.object_ids
        if _ID.fullmatch(object_id)
        and kind_of(object_id)
        and not parent_filter(question.object_kind, object_id)
    )


async def look_by_id(reader: Reader, question: Question, account_seen: str) -> Look:
    """Read every known id. An empty answer says that *these* objects are not there, no more."""
    started_at = reader.gate.now()
    sightings: list[Sighting] = []
    pages: list[Page] = []
    error: ProviderError | None = None
    for object_id in readable_ids(question):
        reading = await read_one(reader, object_id)
        error = reading.error or error
        if reading.page is not None:
            pages.append(reading.page)
            if reading.body and not reading.body.get("error"):
                sightings.append(_sight(reading.body))
    return look_of(
        reader,
        question,
        ("get", "A", "GET /v1/{kind}/{id}"),
        started_at=started_at,
        account_seen=account_seen,
        sightings=sightings,
        pages=pages,
        error=error if not sightings else None,
        # Ids are exact; what other objects there may be, this read does not say.
        exhaustive=False,
    )


async def look_by_search(reader: Reader, question: Question, account_seen: str) -> Look:
    """Search by marker, check every hit exactly, and read it again by id: the index is a rumour."""
    described = OBJECTS[question.object_kind]
    started_at = reader.gate.now()
    query = f'metadata["{MARKER}"]:"{escaped(question.marker)}"'
    sightings: list[Sighting] = []
    pages: list[Page] = []
    error: ProviderError | None = None
    try:
        found = await reader.get(
            f"{described.path}/search", {"query": query, "limit": 100}, endpoint="search"
        )
        pages.append(found)
        for hit in _exact_hits(found, question.marker)[:MOST_READ_AGAIN]:
            page, seen, problem = await read_again(reader, question, hit, "search")
            error = problem or error
            pages += [page] if page is not None else []
            if seen is not None and seen.marker == question.marker:
                sightings.append(seen)
    except ProviderError as problem:
        error = problem
    except Missing:
        error = ProviderError("404, this account has no search", permanent=True, status=404)
    return look_of(
        reader,
        question,
        ("search", "C", f"GET /v1/{described.path}/search"),
        started_at=started_at,
        account_seen=account_seen,
        sightings=sightings,
        pages=pages,
        error=error,
        exhaustive=True,
    )


async def read_again(
    reader: Reader, question: Question, rumour: Mapping[str, Any], source: str
) -> tuple[Page | None, Sighting | None, ProviderError | None]:
    """GET the object that a search or an event told of: what it is now counts, not the rumour.

    Where it cannot be read the sighting is not verified; where it is gone there is none.
    """
    reading = await read_one(reader, str(rumour["id"]))
    if reading.error is not None:
        seen = sighting_of(question.object_kind, rumour, verified=False, marker=question.marker)
        problem = ProviderError(
            f"{source} shows {rumour['id']}, which could not be read again: {reading.error}",
            retry_after_seconds=reading.error.retry_after_seconds,
        )
        return reading.page, seen, problem
    if not reading.body or reading.body.get("error"):
        return reading.page, None, None
    # What was deleted holds no metadata any more: whose it was is known from the rumour alone.
    marker = question.marker if reading.body.get("deleted") else None
    kind = kind_of(str(reading.body["id"])) or question.object_kind
    return reading.page, sighting_of(kind, reading.body, verified=True, marker=marker), None


def escaped(text: str) -> str:
    """A value for a quoted string of Stripe's search language."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _exact_hits(found: Page, marker: str) -> list[Mapping[str, Any]]:
    """Search matches metadata whatever its case; ours is compared letter by letter."""
    data = found.body.get("data")
    if not isinstance(data, list):
        raise ProviderError("an answer that is no page of a search")
    return [body for body in data if (body.get("metadata") or {}).get(MARKER) == marker]


async def read_one(reader: Reader, object_id: str) -> _Reading:
    """GET by id: the object of this very id and mode, or why not."""
    kind = kind_of(object_id)
    if kind is None or not _ID.fullmatch(object_id):
        return _Reading(error=ProviderError(f"{object_id[:40]} is no id that can be read"))
    path = OBJECTS[kind].path
    try:
        page = await reader.get(f"{path}/{object_id}", {}, endpoint=path)
    except Missing as gone:
        return _Reading(page=gone.page)
    except ProviderError as problem:
        return _Reading(error=problem)
    if page.body.get("id") != object_id:
        return _Reading(error=ProviderError(f"asked for {object_id}, another object answered"))
    if mode_of(page.body) not in {"", reader.mode}:
        return _Reading(error=ProviderError(f"{object_id} is of the other mode", permanent=True))
    return _Reading(page=page)


def _sight(body: Mapping[str, Any]) -> Sighting:
    """`read_one` has seen to it that the id is one whose kind is known."""
    kind = kind_of(str(body["id"])) or str(body.get("object"))
    return sighting_of(kind, body, verified=True)


def look_of(
    reader: Reader,
    question: Question,
    named: tuple[str, str, str],
    *,
    started_at: datetime,
    account_seen: str,
    sightings: list[Sighting],
    pages: list[Page],
    error: ProviderError | None,
    exhaustive: bool,
) -> Look:
    """One question's look, from what was read for it. `named`: look-up, class, endpoint."""
    lookup, lookup_class, endpoint = named
    verified = [seen for seen in sightings if seen.verified]
    if verified:
        open_effects = any(seen.stage is Stage.IN_FLIGHT for seen in verified)
        outcome = Outcome.PENDING if open_effects else Outcome.HIT
    else:
        outcome = Outcome.CANNOT_LOOK if error else Outcome.EMPTY
    return Look(
        lookup=lookup,
        lookup_class=lookup_class,
        outcome=outcome,
        started_at=started_at,
        ended_at=reader.gate.now(),
        endpoint=endpoint,
        reason=str(error) if error and not verified else "",
        retry_after_seconds=error.retry_after_seconds if error else None,
        permanent=bool(error and error.permanent and not verified),
        account_seen=account_seen,
        mode=reader.mode,
        pages=len(pages),
        rows=len(sightings),
        complete=error is None,
        exhaustive=exhaustive,
        request_id=pages[-1].request_id if pages else "",
        sightings=tuple(sightings),
        answer=_answers(pages),
    )


def _answers(pages: list[Page]) -> bytes | None:
    """The raw answers, one as it came, several as a JSON array of them."""
    if not pages:
        return None
    if len(pages) == 1:
        return pages[0].raw
    return json.dumps([page.raw.decode("utf-8", "replace") for page in pages]).encode()
