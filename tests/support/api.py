"""A small client of the HTTP contract, for tests that look at a running product from outside."""

import atexit
import itertools
import json
import secrets
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from tests.support.product import Product

_numbers = itertools.count(1)
SCOPES = ("operations:write", "operations:read")


def make_key(
    product: Product,
    *,
    environment: str = "test",
    namespace: str | None = None,
    scopes: tuple[str, ...] = SCOPES,
    expires: str = "NULL",
) -> tuple[str, str]:
    """`(token, namespace)` of a new key, in a namespace of its own unless one is given."""
    namespace = namespace or f"ns-{secrets.token_hex(6)}"
    token = f"cs_{environment}_{secrets.token_urlsafe(32)}"
    with psycopg.connect(product.instance.database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO operations_apikey (id, environment, namespace, name, scopes, digest,"
            " token_prefix, created_at, expires_at)"
            f" VALUES (%s, %s, %s, %s, %s, %s, %s, now(), {expires})",
            [uuid4(), environment, namespace, "tests", list(scopes),
             sha256(token.encode()).digest(), token[:12]],
        )  # fmt: skip
    return token, namespace


class Api:
    """One runtime: a key of its own, in a namespace of its own."""

    def __init__(self, product: Product, **key: Any) -> None:
        self.product = product
        self.token, self.namespace = make_key(product, **key)
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{product.instance.port}",
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=40,
        )
        # Kept to the end of the session, so that no test has to close what it asked with.
        atexit.register(self.http.close)

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Look behind the API, where that is the point of the test."""
        with psycopg.connect(self.product.instance.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement, list(parameters))
            return cursor.fetchall() if cursor.description else []

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.http.get(f"/api/v1{path}", params=query)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        if isinstance(body, bytes):
            headers = {"Content-Type": "application/json", **more.pop("headers", {})}
            return self.http.post(f"/api/v1{path}", content=body, headers=headers, **more)
        return self.http.post(f"/api/v1{path}", json={} if body is None else body, **more)

    def claim(self, **changes: Any) -> httpx.Response:
        """Claim a new call, unless `run`, `step` and `tool_call_id` say which."""
        return self.post("/operations", claim_body(**changes))

    def claimed(self, **changes: Any) -> dict[str, Any]:
        """The body of a granted claim."""
        answer = self.claim(**changes)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def outcome(self, claimed: dict[str, Any], outcome: str, **more: Any) -> httpx.Response:
        body = {
            "attempt_number": claimed["attempt_number"],
            "attempt_id": claimed["attempt_id"],
            "outcome": outcome,
            **more,
        }
        return self.post(f"/operations/{claimed['idem_key']}/outcome", body)


def claim_body(**changes: Any) -> dict[str, Any]:
    """A good claim of a new call."""
    body = {
        "run": {"id": f"run-{next(_numbers)}-{secrets.token_hex(3)}", "agent": "tests"},
        "step": 0,
        "tool_call_id": "call_1",
        "tool": "tests.tool",
        "args": {"n": 1},
        **changes,
    }
    return {name: value for name, value in body.items() if value is not ...}


def raw_claim(args: str) -> bytes:
    """A claim whose args are this exact text."""
    body = json.dumps(claim_body(args="@"))
    return body.replace('"@"', args).encode()


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Every refusal is a problem document with the same members."""
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    ), answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["code"] == code, problem
    assert problem["status"] == status
    assert problem["type"] == f"urn:countersign:problem:{code.lower().replace('_', '-')}"
    assert problem["title"]
    assert problem["detail"]
    assert isinstance(problem["retryable"], bool)
    seconds = problem["retry_after_seconds"]
    assert ("retry-after" in answer.headers) == (seconds is not None)
    return problem
