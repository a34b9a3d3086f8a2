"""A console that answers what a test tells it to: for the edges of the SDK's protocol."""

import json
from collections.abc import Callable
from typing import Any

import httpx
from countersign import canonical

Answer = tuple[int, dict[str, Any]] | Exception | Callable[["Asked"], Any]


class Asked:
    """One request as the console saw it."""

    def __init__(self, request: httpx.Request) -> None:
        self.method = request.method
        self.path = request.url.path
        self.query = dict(request.url.params)
        self.headers = request.headers
        self.text = request.content.decode()
        self.body: Any = json.loads(self.text) if self.text else None

    @property
    def verb(self) -> str:
        if self.path == "/api/v1/operations":
            return "claim"
        if self.path.startswith("/api/v1/operations/"):
            return self.path.split("/")[5] if self.path.count("/") == 5 else "read"
        return self.path.split("/")[3]


class ScriptedConsole:
    """`on("claim", a, b)` answers a, then b for ever. An exception is raised in the client."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: dict[str, list[Answer]] = {
            "claim": [execute()],
            "outcome": [(200, {"operation": {"version": 3}, "superseded": False})],
            "heartbeat": [(200, {"operation": {}})],
            "records": [(200, {"accepted": 1, "results": []})],
        }

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._handle)

    def on(self, verb: str, *answers: Answer) -> "ScriptedConsole":
        self._answers[verb] = list(answers)
        return self

    def told(self, verb: str) -> list[Any]:
        """Bodies (queries of reads) that arrived for a verb."""
        found = [asked for asked in self.asked if asked.verb == verb]
        return [asked.query if verb == "read" else asked.body for asked in found]

    def _handle(self, request: httpx.Request) -> httpx.Response:
        asked = Asked(request)
        self.asked.append(asked)
        answers = self._answers[asked.verb]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer) and not isinstance(answer, Exception):
            answer = answer(asked)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        return httpx.Response(status, json=body)


def execute(number: int = 1, within_ms: int | None = 30_000, **more: Any) -> Answer:
    """201: the permit is given."""

    def answer(asked: Asked) -> tuple[int, dict[str, Any]]:
        body = {
            "decision": "execute",
            "operation": {"version": 2, "updated_at": "2026-01-01T00:00:00Z"},
            "idem_key": "k",
            "args_fingerprint": canonical.fingerprint(asked.body["args"]),
            "attempt_number": number,
            "attempt_id": asked.body["attempt"]["id"],
            "lease_expires_at": "2026-01-01T00:01:00Z",
            "send_within_ms": within_ms,
        }
        return 201, body | more

    return answer


def wait(decision: str, version: int = 2, **more: Any) -> Answer:
    """202: not now."""
    body = {"decision": decision, "operation": {"version": version, "decision": decision}}
    return 202, body | more


def replay(result: Any, **more: Any) -> Answer:
    return 200, {"decision": "replay", "result": result, "operation": {"version": 5}} | more


def reads(decision: str, version: int = 3, **more: Any) -> Answer:
    """What a read of the operation shows."""
    return 200, {"decision": decision, "version": version} | more


def problem(status: int, code: str, **more: Any) -> Answer:
    body = {"code": code, "title": code, "detail": f"{code} happened.", "status": status}
    return status, body | more
