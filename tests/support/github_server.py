"""A GitHub of our own: one repository, paged lists that lag, an index, and its ways to refuse."""

import itertools
import json
import time
import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from tests.support.rest_server import Asked, RestServer, Told


class GitHubServer(RestServer):
    """Lists show what is older than `lag_seconds`; by its number, everything is there at once."""

    def __init__(self) -> None:
        super().__init__()
        self.token = f"ghp_{uuid.uuid4().hex}"
        self.repository = "acme/shop"
        self.repository_id = 4711
        self.lag_seconds = 0.0
        self.page_size = 100
        self.incomplete = False
        self.next_elsewhere = False
        #: path -> what is told instead of an answer
        self.instead: dict[str, Told] = {}
        self.deployments: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.statuses: dict[int, list[dict[str, Any]]] = {}
        self._ids = itertools.count(1001)

    # The book ---------------------------------------------------------------------------------

    def deploy(self, payload: Any, *states: str, **changes: Any) -> dict[str, Any]:
        number = next(self._ids)
        deployment: dict[str, Any] = {
            "id": number,
            "task": "deploy",
            "environment": "production",
            "payload": payload,
            "created_at": _now(),
        }
        deployment |= changes
        self.deployments.append(deployment)
        self.statuses[number] = []
        for state in states:
            self.report(number, state)
        return deployment

    def report(self, number: int, state: str) -> None:
        status = {"id": next(self._ids), "state": state, "created_at": _now()}
        # GitHub shows the newest first.
        self.statuses[number].insert(0, status)

    def open_issue(self, body: str | None, **changes: Any) -> dict[str, Any]:
        issue: dict[str, Any] = {
            "number": next(self._ids),
            "state": "open",
            "body": body,
            "created_at": _now(),
        }
        issue |= changes
        self.issues.append(issue)
        return issue

    # HTTP -------------------------------------------------------------------------------------

    def answer(self, asked: Asked) -> Told:
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return Told(401, {"message": f"Bad credentials {asked.headers.get('authorization')}"})
        if asked.path in self.instead:
            return self.instead[asked.path]
        root = f"/repos/{self.repository}"
        if asked.path == root:
            return Told(200, {"id": self.repository_id, "full_name": self.repository})
        if asked.path == f"{root}/deployments":
            return self._page(asked, self._shown(self.deployments))
        if asked.path == f"{root}/issues":
            return self._page(asked, self._changed_since(asked.query.get("since", "")))
        if asked.path == "/search/issues":
            return self._search(asked)
        if asked.path.startswith(f"{root}/"):
            return self._one(asked, asked.path.removeprefix(f"{root}/").split("/"))
        return Told(404, {"message": "Not Found"})

    def _one(self, asked: Asked, parts: list[str]) -> Told:
        kind, number = parts[0], int(parts[1])
        if kind == "deployments" and parts[2:] == ["statuses"]:
            return self._page(asked, self.statuses[number])
        book, member = (
            (self.deployments, "id") if kind == "deployments" else (self.issues, "number")
        )
        for each in book:
            if each[member] == number:
                return Told(200, each)
        return Told(404, {"message": "Not Found"})

    def _shown(self, book: list[dict[str, Any]]) -> list[dict[str, Any]]:
        newest = time.time() - self.lag_seconds
        return [e for e in reversed(book) if _seconds(e["created_at"]) <= newest]

    def _changed_since(self, since: str) -> list[dict[str, Any]]:
        begin = _seconds(since) if since else 0.0
        return [each for each in self._shown(self.issues) if _seconds(each["created_at"]) >= begin]

    def _search(self, asked: Asked) -> Told:
        quoted = asked.query["q"].split('"')[1]
        found = [e for e in self._shown(self.issues) if quoted.lower() in str(e["body"]).lower()]
        told = self._page(asked, found)
        told.body = {
            "total_count": len(found),
            "incomplete_results": self.incomplete,
            "items": told.body,
        }
        return told

    def _page(self, asked: Asked, rows: list[dict[str, Any]]) -> Told:
        size = min(int(asked.query.get("per_page", "30")), self.page_size)
        page = int(asked.query.get("page", "1"))
        told = Told(200, rows[(page - 1) * size : page * size])
        if page * size < len(rows):
            base = "https://evil.example" if self.next_elsewhere else self.url
            query = urlencode(asked.query | {"page": str(page + 1)})
            link = f'<{base}{asked.path}?{query}>; rel="next", <{base}/x>; rel="last"'
            told.headers["Link"] = link
        return told


def issue_body(marker: str, **texts: str) -> str:
    comments = "".join(f"\n<!-- {n}: {t} -->" for n, t in {"idem_key": marker, **texts}.items())
    return f"The build is broken.\n{comments}\n"


def as_text(payload: dict[str, str]) -> str:
    return json.dumps(payload)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
