"""One account's questions, each by the declared address; pages where there are several."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from reconcilers.evidence import Look, Sighting, Way
from reconcilers.providers.asking import OneByOne, looked
from reconcilers.providers.base import (
    AccountAccess,
    Gate,
    Identity,
    KnownObject,
    ProviderError,
    Question,
)
from reconcilers.providers.http.declaration import Declaration
from reconcilers.providers.http.items import KIND, at, items_of, marked, sighting
from reconcilers.providers.http.reading import Fetcher
from reconcilers.providers.rest import Reply

#: A question that needs more pages than this is asked wrongly.
MOST_PAGES: Final = 20
#: More hits than this for one key are read no further: two already are a duplicate.
MOST_READ_AGAIN: Final = 5


@dataclass
class _Read:
    """What the pages of one question gave: objects with the key, and the answers as they came."""

    items: list[Any] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    request_id: str = ""


class HttpSession(OneByOne):
    """Reads one interface as its account declares it."""

    def __init__(self, access: AccountAccess, gate: Gate, *, concurrency: int) -> None:
        super().__init__(gate, concurrency=concurrency)
        self._declared = Declaration(access.config)
        self._environment = access.environment
        self._expected = access.external_id
        self._fetcher = Fetcher(access, gate, connections=concurrency)
        self._account_seen = ""
        self._control_passed = False

    async def identify(self) -> Identity:
        """Who the interface says we are, where the account declares how to ask that."""
        url = self._declared.config.get("account_url")
        if not url:
            raise ProviderError("this account declares no account_url", status=403, permanent=True)
        reply = await self._fetcher.get(url)
        if reply.status == 404:
            raise ProviderError("404, the account cannot be read", permanent=True, status=404)
        told = at(_parsed(reply), self._declared.config["account_pointer"])
        if not isinstance(told, str | int) or isinstance(told, bool) or told == "":
            raise ProviderError("the account's answer names no account")
        return Identity(account_id=str(told), mode=self._environment)

    async def close(self) -> None:
        """Close the connections."""
        await self._fetcher.close()

    async def check(self, known: Mapping[str, KnownObject]) -> None:
        """The account's identity, and an earlier object of ours by the very same address."""
        self._control_passed = False
        if self._declared.config.get("account_url"):
            identity = await self.identify()
            if self._expected and identity.account_id != self._expected:
                raise ProviderError(
                    f"the credentials open {identity.account_id[:60]}, and this account is"
                    f" {self._expected}",
                    permanent=True,
                )
            self._account_seen = identity.account_id
            self._control_passed = True
        earlier = known.get(KIND)
        if earlier is None or not earlier.marker:
            return
        read = _Read()
        await self._read(read, earlier.marker, earlier.created_at)
        ids = {self._sighting(item, verified=True).id for item in read.items}
        if earlier.id not in ids:
            raise ProviderError(
                f"an earlier object of ours, {earlier.id[:60]}, is not visible, so an empty"
                " answer would mean nothing"
            )
        self._control_passed = True

    def ways(self, question: Question) -> tuple[Way, ...]:
        """The one declared look-up."""
        return (self._declared.way,) if question.object_kind == KIND else ()

    async def look_for(self, question: Question) -> list[Look]:
        """Ask by the key; read a hit again by id where the answer may be behind."""
        ways = [way for way in self.ways(question) if question.allows(way.name)]
        return [await self._look(way, question) for way in ways]

    async def _look(self, way: Way, question: Question) -> Look:
        started_at = self._gate.now()
        read = _Read()
        sightings: list[Sighting] = []
        problem: ProviderError | None = None
        try:
            await self._read(read, question.marker, question.window_from)
        except ProviderError as error:
            problem = error
        try:
            for item in read.items[:MOST_READ_AGAIN]:
                # One by one: what was seen before a failure was seen.
                sightings.append(  # noqa: PERF401
                    await self._seen(way, read, item, question.marker)
                )
        except ProviderError as error:
            problem = problem or error
        horizon = self._declared.horizon
        return looked(
            way,
            sightings,
            problem,
            answers=read.answers,
            started_at=started_at,
            ended_at=self._gate.now(),
            endpoint=f"GET {self._declared.host}",
            account_seen=self._account_seen,
            mode=self._environment,
            covers_from=started_at - horizon if horizon else question.window_from,
            control_passed=self._control_passed,
            request_id=read.request_id,
        )

    async def _seen(self, way: Way, read: _Read, item: Any, marker: str) -> Sighting:
        """The object; of one that cannot be read again, what the rumour said."""
        first = self._sighting(item, verified=way.exhaustive)
        url = self._declared.item_url(first.id)
        if way.exhaustive or url is None:
            return first
        try:
            reply = await self._fetcher.get(url)
            body = _parsed(reply) if reply.status != 404 else None
        except ProviderError:
            return first
        read.answers.append(reply.raw)
        again = marked(self._declared, [body], marker)
        if not again:
            return first
        second = self._sighting(again[0], verified=True)
        return second if second.id == first.id else first

    async def _read(self, read: _Read, key: str, since: datetime) -> None:
        """Every page into `read`; raises ProviderError where one of them is no answer."""
        declared = self._declared
        url: str | None = declared.key_url(key, since)
        while url is not None:
            if len(read.answers) >= MOST_PAGES:
                raise ProviderError(f"the answer has more than {MOST_PAGES} pages")
            reply = await self._fetcher.get(url)
            read.request_id = reply.headers.get("x-request-id", "")[:200]
            if reply.status == 404:
                if read.answers or not declared.means_empty("404"):
                    raise ProviderError(
                        "404, which is not declared to mean that nothing is there",
                        permanent=True,
                        status=404,
                    )
                read.answers.append(reply.raw)
                return
            body = _parsed(reply)
            read.answers.append(reply.raw)
            items = items_of(declared, body)
            ours = marked(declared, items, key)
            read.items += ours
            told = at(body, declared.pointer("next"))
            url = declared.next_url(url, told) if isinstance(told, str) and told else None
            if url is None and not read.items:
                self._check_emptiness(items)

    def _check_emptiness(self, items: list[Any]) -> None:
        """An answer without our key is empty only where that was declared, and looks like it."""
        listed = self._declared.pointer("items") is not None
        if items and not listed:
            raise ProviderError("the answer is about another key", permanent=True)
        if not self._declared.means_empty("empty_list"):
            raise ProviderError(
                "an empty list, which is not declared to mean that nothing is there",
                permanent=True,
            )

    def _sighting(self, item: Any, *, verified: bool) -> Sighting:
        return sighting(self._declared, item, environment=self._environment, verified=verified)


def _parsed(reply: Reply) -> Any:
    try:
        return json.loads(reply.raw)
    except (ValueError, RecursionError):
        raise ProviderError("an answer that cannot be read", status=reply.status) from None
