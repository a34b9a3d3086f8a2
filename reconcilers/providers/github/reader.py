"""GETs of one repository, lists to their last page, and what each refusal of GitHub's means."""

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconcilers.evidence import Sighting
from reconcilers.providers.base import AccountAccess, Gate, ProviderError
from reconcilers.providers.github.objects import OBJECTS, sighting_of
from reconcilers.providers.rest import Reply, RestReader, retry_after

API_BASE: Final = "https://api.github.com"
PAGE_SIZE: Final = 100
#: 10,000 objects; a window that is larger is a question asked wrongly.
MOST_PAGES: Final = 100

#: "Wait for at least one minute before retrying" (rate limits, secondary, without a header).
_SECONDARY_SECONDS: Final = 60.0
_LONGEST_WAIT_SECONDS: Final = 3600.0

_NEXT: Final = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?')
_PERMISSIONS: Final = re.compile(r"[a-z_]+=[a-z]+(?:[,; ]+[a-z_]+=[a-z]+){0,9}")


@dataclass(frozen=True)
class Read:
    """One object by number: seen, gone, or not to be had; and the raw answers."""

    seen: Sighting | None
    answers: tuple[bytes, ...] = ()
    problem: ProviderError | None = None


class Repository:
    """Reads one repository. Raises ProviderError for everything that is not an answer."""

    def __init__(self, access: AccountAccess, gate: Gate, *, concurrency: int) -> None:
        self.gate = gate
        self.name = str(access.config["repository"])
        self._rest = RestReader(
            str(access.config.get("base_url") or API_BASE),
            gate,
            title="GitHub",
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {access.secrets['token']}",
                "User-Agent": "countersign-reconciler",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            refusal=self._refusal,
            timeout_seconds=float(access.config.get("timeout_seconds") or 15),
            connections=concurrency,
        )

    async def repository_id(self) -> str:
        """The repository's id, which stays the same when it is renamed."""
        reply = await self._rest.get(f"/repos/{self.name}", endpoint="repository")
        if reply.status == 404:
            raise ProviderError(
                f"404, {self.name} is not visible to this token: GitHub says so too where the"
                " token lacks the permission, so that nothing read here would mean anything",
                permanent=True,
                status=404,
            )
        found = reply.said("id")
        if not isinstance(found, int):
            raise ProviderError("the repository's answer names no repository")
        return str(found)

    async def read(self, kind: str, number: str, *, reported: str = "") -> Read:
        """One object again by its number, a deployment with its statuses."""
        described = OBJECTS[kind]
        path = f"/repos/{self.name}/{described.path}/{number}"
        answers: list[bytes] = []
        try:
            reply = await self._rest.get(path, endpoint=described.path)
            answers.append(reply.raw)
            if reply.status in {404, 410}:
                return Read(None, tuple(answers))
            body = reply.body()
            if not isinstance(body, dict) or str(body.get(described.number)) != number:
                raise ProviderError(f"asked for {path}, another object answered")
            statuses: list[Mapping[str, Any]] = []
            if described.has_statuses:
                pages = self.pages(f"{path}/statuses", {}, endpoint=described.path)
                async for rows, raw in pages:
                    statuses.extend(row for row in rows if isinstance(row, dict))
                    answers.append(raw)
        except ProviderError as problem:
            return Read(None, tuple(answers), problem)
        seen = sighting_of(kind, body, statuses, verified=True, reported=reported)
        return Read(seen, tuple(answers))

    async def pages(
        self, path: str, params: Mapping[str, str], *, endpoint: str, member: str = ""
    ) -> AsyncGenerator[tuple[list[Any], bytes], None]:
        """Each page's rows (those of `member` for a search) and its bytes, to the last page."""
        following: str | None = path
        query: Mapping[str, str] | None = {**params, "per_page": str(PAGE_SIZE)}
        for _ in range(MOST_PAGES):
            if following is None:
                return
            reply = await self._rest.get(following, query, endpoint=endpoint)
            if reply.status != 200:
                raise ProviderError(
                    f"{reply.status}, the {endpoint} of {self.name} cannot be read: they are"
                    " switched off, or the token lacks the permission",
                    permanent=True,
                    status=reply.status,
                )
            rows = reply.said(member) if member else reply.body()
            if not isinstance(rows, list):
                raise ProviderError("an answer that is no page of a list")
            if member and reply.said("incomplete_results") is not False:
                raise ProviderError("the search gave up before it was done (incomplete_results)")
            yield rows, reply.raw
            # The address of the next page holds the query already.
            following, query = self._next(reply), None
        raise ProviderError(f"the list of {endpoint} holds more than {MOST_PAGES * PAGE_SIZE}")

    async def close(self) -> None:
        """Close the connections."""
        await self._rest.close()

    def _next(self, reply: Reply) -> str | None:
        """The next page's path, which must lie where the token belongs."""
        found = _NEXT.search(reply.headers.get("link", ""))
        if found is None:
            return None
        if not found[1].startswith(f"{self._rest.base}/"):
            raise ProviderError("the list goes on at another address", permanent=True)
        return found[1].removeprefix(self._rest.base)

    def _refusal(self, reply: Reply) -> ProviderError | None:
        status = reply.status
        if status in {200, 404, 410}:
            return None
        if status == 401:
            return ProviderError("401, the token is not accepted", permanent=True, status=401)
        if status in {403, 429}:
            return self._limited(reply) or self._forbidden(reply)
        if status in {301, 302, 307, 308}:
            return ProviderError(
                f"{status}, this has moved: name the repository as it is called now",
                permanent=True,
                status=status,
            )
        if status >= 500:
            return ProviderError(
                f"{status} from GitHub", status=status, retry_after_seconds=retry_after(reply)
            )
        return ProviderError(
            f"{status}, GitHub refused the question", permanent=True, status=status
        )

    def _limited(self, reply: Reply) -> ProviderError | None:
        """A rate limit, which GitHub tells as 429 or as 403; None where it is none."""
        message = str(reply.said("message") or "").lower()
        seconds = retry_after(reply)
        which = "secondary rate limit"
        if seconds is None and reply.headers.get("x-ratelimit-remaining") == "0":
            which, seconds = "hourly rate limit", self._until_reset(reply)
        elif seconds is None and (reply.status == 429 or "rate limit" in message):
            seconds = _SECONDARY_SECONDS
        if seconds is None:
            return None
        # Told on as 429 whatever it came as: the engine's limiter goes by that.
        return ProviderError(
            f"{reply.status}, the {which} is used up", status=429, retry_after_seconds=seconds
        )

    def _until_reset(self, reply: Reply) -> float:
        try:
            reset = float(reply.headers.get("x-ratelimit-reset", ""))
        except ValueError:
            return _SECONDARY_SECONDS
        seconds = reset - self.gate.now().timestamp()
        return min(max(seconds, 1.0), _LONGEST_WAIT_SECONDS)

    def _forbidden(self, reply: Reply) -> ProviderError:
        if "required" in reply.headers.get("x-github-sso", ""):
            words = "the token must be authorised for the organisation's single sign-on"
        else:
            needed = reply.headers.get("x-accepted-github-permissions", "")
            told = f" ({needed})" if _PERMISSIONS.fullmatch(needed) else ""
            words = f"the token may not read this of {self.name}: give it the permission{told}"
        return ProviderError(f"403, {words}", permanent=True, status=403)
