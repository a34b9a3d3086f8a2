"""An agent runtime that speaks nothing but HTTP: the black-box side of the contract tests."""

import itertools
import json
import uuid
from typing import Any

import httpx

_RUNS = itertools.count(1)


class Runtime:
    """One API key, and the calls of the contract with as little help as possible."""

    def __init__(self, base_url: str, key: str) -> None:
        self.http = httpx.Client(
            base_url=base_url, headers={"Authorization": f"Bearer {key}"}, timeout=60
        )

    def new_call(self, **changes: Any) -> dict[str, Any]:
        """The body of a claim for a call that nobody made before."""
        run = f"run_{uuid.uuid4().hex[:10]}_{next(_RUNS)}"
        return {
            "run": {"id": run, "agent": "renewals"},
            "step": 1,
            "tool_call_id": "call_1",
            "tool": "tests.unregistered",
            "args": {"customer": "cus_42", "amount": 25000, "currency": "usd"},
            "attempt": {"id": uuid.uuid4().hex},
        } | changes

    def claim(self, body: dict[str, Any] | None = None, **changes: Any) -> httpx.Response:
        return self.http.post("/api/v1/operations", json=(body or self.new_call()) | changes)

    def claim_raw(self, text: str) -> httpx.Response:
        """A claim whose exact text matters: duplicate members, NaN, cut-off JSON."""
        return self.http.post(
            "/api/v1/operations",
            content=text.encode(),
            headers={"Content-Type": "application/json"},
        )

    def verb(self, key: str, name: str, **body: Any) -> httpx.Response:
        return self.http.post(f"/api/v1/operations/{key}/{name}", json=body)

    def outcome(self, claim: httpx.Response, outcome: str, **changes: Any) -> httpx.Response:
        """Report on the attempt that this claim was granted."""
        granted = claim.json()
        body = {
            "attempt_number": granted["attempt_number"],
            "attempt_id": granted["attempt_id"],
            "outcome": outcome,
        } | changes
        return self.verb(granted["idem_key"], "outcome", **body)

    def read(self, key: str, **query: Any) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/operations/{key}", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def records(self, *records: dict[str, Any], verbose: bool = False) -> httpx.Response:
        return self.http.post(
            "/api/v1/records", params={"verbose": "1"} if verbose else {}, json=list(records)
        )


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is the problem it should be, whole, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    body: dict[str, Any] = answer.json()
    assert body["code"] == code, body
    assert body["status"] == status
    assert isinstance(body["retryable"], bool)
    assert "retry_after_seconds" in body
    assert body["title"]
    assert body["detail"]
    assert body["type"].startswith("urn:countersign:problem:")
    if body["retry_after_seconds"] is not None:
        assert "retry-after" in answer.headers
    return body


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
