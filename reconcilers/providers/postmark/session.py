"""One server's questions: by message id where one is known, else by a search of the log."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from reconcilers.evidence import CLOCK_SLACK, Look, Outcome, Sighting, Way
from reconcilers.providers.asking import OneByOne, could_not, looked
from reconcilers.providers.base import (
    AccountAccess,
    Gate,
    Identity,
    KnownObject,
    ProviderError,
    Question,
)
from reconcilers.providers.postmark.messages import (
    LONGEST_VALUE,
    MARKER,
    may_be_ours,
    sighting_of,
)
from reconcilers.providers.rest import Reply, RestReader, retry_after

API_BASE: Final = "https://api.postmarkapp.com"

#: More hits than this for one marker are read no further: two already are a duplicate.
MOST_READ_AGAIN: Final = 5
_PAGE_SIZE: Final = 100
_MOST_PAGES: Final = 5

#: `ErrorCode` of an answer to an id that no message has (with status 422).
_NO_SUCH_MESSAGE: Final = 701

_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class PostmarkSession(OneByOne):
    """Reads with one server token."""

    def __init__(
        self,
        access: AccountAccess,
        gate: Gate,
        *,
        ways: Callable[[str], tuple[Way, ...]],
        concurrency: int,
    ) -> None:
        super().__init__(gate, concurrency=concurrency)
        self._ways = ways
        self._environment = access.environment
        self._expected = access.external_id
        self._marker_in = str(access.config.get("marker_in") or "metadata")
        self._stream = str(access.config.get("message_stream") or "")
        self._retention = timedelta(days=int(access.config.get("retention_days") or 45))
        self._identity: Identity | None = None
        self._reader = RestReader(
            str(access.config.get("base_url") or API_BASE),
            gate,
            title="Postmark",
            headers={
                "Accept": "application/json",
                "X-Postmark-Server-Token": access.secrets["server_token"],
            },
            refusal=refusal,
            timeout_seconds=float(access.config.get("timeout_seconds") or 15),
            connections=concurrency,
        )

    async def identify(self) -> Identity:
        """The server's id and type, asked once: `Sandbox` is test, `Live` is live."""
        if self._identity is None:
            reply = await self._reader.get("/server", endpoint="server")
            server_id, type_ = reply.said("ID"), reply.said("DeliveryType")
            if not isinstance(server_id, int) or type_ not in {"Live", "Sandbox"}:
                raise ProviderError("the server's answer names no server")
            mode = "test" if type_ == "Sandbox" else "live"
            self._identity = Identity(account_id=str(server_id), mode=mode)
        return self._identity

    async def close(self) -> None:
        """Close the connections."""
        await self._reader.close()

    def ways(self, question: Question) -> tuple[Way, ...]:
        """As the provider offers them."""
        return self._ways(question.object_kind)

    async def check(self, known: Mapping[str, KnownObject]) -> None:
        """The token opens the server that was meant, and that is of the environment's type."""
        identity = await self.identify()
        if self._expected and identity.account_id != self._expected:
            raise ProviderError(
                f"the token opens server {identity.account_id}, and this account is"
                f" {self._expected}",
                permanent=True,
            )
        if identity.mode != self._environment:
            raise ProviderError(
                f"the token opens a {identity.mode} server, and this account is of the"
                f" {self._environment} environment",
                permanent=True,
            )

    async def look_for(self, question: Question) -> list[Look]:
        """By id first; by search where that did not settle it, or effects are counted."""
        looks: list[Look] = []
        for way in self.ways(question):
            settled = any(look.outcome in {Outcome.HIT, Outcome.PENDING} for look in looks)
            if not question.allows(way.name) or (settled and not question.count_effects):
                continue
            if way.name == "search":
                looks.append(await self._search(way, question))
            elif ids := [each for each in question.object_ids if _ID.fullmatch(each)]:
                looks.append(await self._get(way, ids))
        return looks

    async def _get(self, way: Way, ids: Sequence[str]) -> Look:
        started_at = self._gate.now()
        sightings, answers, problem = await self._read_all(ids)
        return looked(
            way,
            sightings,
            problem,
            answers=answers,
            **self._facts(started_at, "GET /messages/outbound/{id}/details"),
        )

    async def _search(self, way: Way, question: Question) -> Look:
        started_at = self._gate.now()
        facts = self._facts(started_at, "GET /messages/outbound")
        hits: list[Mapping[str, Any]] = []
        answers: list[bytes] = []
        problem = self._why_in_vain(question)
        sightings: list[Sighting] = []
        try:
            if problem is None:
                await self._gather(question.marker, hits, answers)
        except ProviderError as error:
            problem = error
        ids = [str(hit["MessageID"]) for hit in hits][:MOST_READ_AGAIN]
        read, raw, unread = await self._read_all(ids)
        answers.extend(raw)
        sightings = [seen for seen in read if seen.marker == question.marker]
        if unread is not None:
            seen_ids = {seen.id for seen in read}
            sightings.extend(
                sighting_of(hit, marker_in=self._marker_in, verified=False)
                for hit in hits[:MOST_READ_AGAIN]
                if hit["MessageID"] not in seen_ids
            )
            problem = ProviderError(
                f"the log shows a message that could not be read again: {unread}",
                retry_after_seconds=unread.retry_after_seconds,
            )
        if problem is None and not sightings:
            problem = self._why_forgotten(question)
        if problem is not None and not answers:
            return could_not(way, problem, started_at, **facts)
        return looked(way, sightings, problem, answers=answers, **facts)

    async def _gather(
        self, marker: str, hits: list[Mapping[str, Any]], answers: list[bytes]
    ) -> None:
        """Every hit that may be ours, to the last page."""
        named = "tag" if self._marker_in == "tag" else f"metadata_{MARKER}"
        for page in range(_MOST_PAGES):
            params = {"count": str(_PAGE_SIZE), "offset": str(page * _PAGE_SIZE), named: marker}
            if self._stream:
                params["messagestream"] = self._stream
            reply = await self._reader.get("/messages/outbound", params, endpoint="search")
            found, total = reply.said("Messages"), reply.said("TotalCount")
            if not isinstance(found, list) or not isinstance(total, int):
                raise ProviderError("an answer that is no page of a search")
            answers.append(reply.raw)
            hits.extend(
                hit
                for hit in found
                if isinstance(hit, dict)
                and _ID.fullmatch(str(hit.get("MessageID")))
                and may_be_ours(hit, marker, self._marker_in)
            )
            if not found or (page + 1) * _PAGE_SIZE >= total:
                return
        raise ProviderError(f"more than {_MOST_PAGES * _PAGE_SIZE} messages answer to this key")

    async def _read_all(
        self, ids: Sequence[str]
    ) -> tuple[list[Sighting], list[bytes], ProviderError | None]:
        """Messages by id, the raw answers, and why one could not be read."""
        sightings: list[Sighting] = []
        answers: list[bytes] = []
        problem: ProviderError | None = None
        for message_id in ids:
            try:
                reply = await self._reader.get(
                    f"/messages/outbound/{message_id}/details", endpoint="details"
                )
                answers.append(reply.raw)
                if reply.status == 422:
                    continue
                body = reply.body()
                if not isinstance(body, dict) or body.get("MessageID") != message_id:
                    raise ProviderError(f"asked for {message_id}, another message answered")
            except ProviderError as error:
                problem = error
                continue
            sightings.append(sighting_of(body, marker_in=self._marker_in, verified=True))
        return sightings, answers, problem

    def _facts(self, started_at: Any, endpoint: str) -> dict[str, Any]:
        return {
            "started_at": started_at,
            "ended_at": self._gate.now(),
            "endpoint": endpoint,
            "account_seen": self._identity.account_id if self._identity else "",
            "mode": self._environment,
        }

    def _why_in_vain(self, question: Question) -> ProviderError | None:
        if self._marker_in == "metadata" and len(question.marker) > LONGEST_VALUE:
            return ProviderError(
                f"Postmark's metadata holds {LONGEST_VALUE} characters and this key has"
                f" {len(question.marker)}, so that no message can carry it: send it as the tag",
                permanent=True,
            )
        return None

    def _why_forgotten(self, question: Question) -> ProviderError | None:
        horizon = self._gate.now() - self._retention
        if question.window_from - CLOCK_SLACK > horizon:
            return None
        return ProviderError(
            f"nothing was found, but this server keeps messages for {self._retention.days} days"
            " and the call may be older: find out by hand",
            permanent=True,
        )


def refusal(reply: Reply) -> ProviderError | None:
    """Why a reply is no answer, in words a person can act on."""
    status = reply.status
    if status == 200:
        return None
    code = reply.said("ErrorCode")
    if status == 422 and code == _NO_SUCH_MESSAGE:
        return None
    if status == 401:
        return ProviderError("401, the server token is not accepted", permanent=True, status=401)
    if status == 403:
        return ProviderError("403, the token may not read this server", permanent=True, status=403)
    if status == 429:
        return ProviderError(
            "429, too many requests", status=429, retry_after_seconds=retry_after(reply) or 1.0
        )
    if status >= 500:
        return ProviderError(
            f"{status} from Postmark", status=status, retry_after_seconds=retry_after(reply)
        )
    return ProviderError(
        f"{status}, Postmark refused the question"
        f" ({f'ErrorCode {code}' if isinstance(code, int) else 'no code'})",
        permanent=True,
        status=status,
    )
