"""The OpenAPI document: routes, shapes and words put together."""

from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from console.api import bodies
from console.api.described.answers import SCHEMAS
from console.api.described.approvals import APPROVALS
from console.api.described.operations import OPERATIONS
from console.api.described.problem_codes import STATUS_OF
from console.api.described.rest import REST
from console.api.described.schemas import ref
from console.api.described.words import Words
from console.api.routes import Route

WORDS: Final = {**OPERATIONS, **APPROVALS, **REST}
VERSION: Final = "1.0.0"

_SAYS: Final = """\
Agent runtimes claim calls, report outcomes and records, and wait. Bodies are UTF-8 JSON of at most
1 MiB (batches 8 MiB, gzip accepted); unknown fields are refused by name; times are RFC 3339 UTC;
money is integer minor units with an ISO 4217 code. Every error is a problem document (RFC 9457)
with `code`, `retryable` and `retry_after_seconds`. Retry with exponential backoff and full jitter,
at one layer only."""

_SECURITY: Final = {
    "runtimeKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "API key of one agent runtime: one environment, one namespace, scopes.",
    },
    "reviewerToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "A person's token for the command line; an API key never decides.",
    },
    "session": {"type": "apiKey", "in": "cookie", "name": "session"},
}


@lru_cache(maxsize=1)
def build(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The whole document; made once a process."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        words = WORDS[route.method, route.path]
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, words)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Countersign", "version": VERSION, "description": _SAYS},
        "servers": [{"url": "/"}],
        "tags": [{"name": group} for group in _groups(routes)],
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": _SECURITY},
    }


def _groups(routes: Iterable[Route]) -> list[str]:
    return list(dict.fromkeys(WORDS[route.method, route.path].group for route in routes))


def _operation(route: Route, words: Words) -> dict[str, Any]:
    name = route.path.strip("/").replace("/", "_").replace("{", "").replace("}", "")
    described: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{name.replace('.', '_').replace('-', '_')}",
        "summary": words.summary,
        "tags": [words.group],
        "security": _security(route),
        "responses": {
            **{str(status): _answer(words, *answer) for status, answer in words.answers.items()},
            **_problems(route, words),
        },
    }
    if words.says:
        described["description"] = words.says
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in route.path.split("/")
        if part.startswith("{")
    ]
    parameters += [
        {"name": name, "in": "query", "schema": schema, "description": says}
        for name, (schema, says) in words.query.items()
    ]
    if parameters:
        described["parameters"] = parameters
    if words.body is not None:
        described["requestBody"] = _body(words)
    return described


def _body(words: Words) -> dict[str, Any]:
    content: dict[str, Any] = {bodies.JSON: {"schema": words.body}}
    if words.body_example is not None:
        content[bodies.JSON]["example"] = words.body_example
    if words.ndjson is not None:
        content[bodies.NDJSON] = {"schema": words.ndjson}
    needed = bool(words.body and (words.body.get("required") or "$ref" in words.body))
    return {"required": needed, "content": content}


def _answer(words: Words, says: str, schema: dict[str, Any], example: Any) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {"description": says, "content": {words.media: content}}


def _security(route: Route) -> list[dict[str, list[str]]]:
    if route.path == "/events":
        return [{"session": []}]
    # In OpenAPI 3.1 the list names roles for any kind of scheme: here, the key's scopes.
    runtime = {"runtimeKey": [route.scope] if route.scope else []}
    options: dict[str, list[dict[str, list[str]]]] = {
        "runtime": [runtime],
        "reviewer": [{"reviewerToken": []}],
        "either": [runtime, {"reviewerToken": []}],
        "anyone": [],
    }
    return options[route.who]


def _problems(route: Route, words: Words) -> dict[str, Any]:
    """Every refusal by status; those of the gateway itself come with the kind of route."""
    codes = list(words.problems)
    if route.who != "anyone":
        codes += ["UNAUTHENTICATED", "SCOPE_MISSING", "UNAVAILABLE"]
    if "{" in route.path:
        codes.append("NOT_FOUND")
    if route.has_body:
        codes += ["MALFORMED_JSON", "TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "OUTCOME_UNCERTAIN"]
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        for status in STATUS_OF[code]:
            by_status.setdefault(status, []).append(code)
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(f'`{c}`' for c in codes)}.",
            "content": {"application/problem+json": {"schema": _problem(codes)}},
        }
        for status, codes in sorted(by_status.items())
        if status not in words.answers
    }


def _problem(codes: list[str]) -> dict[str, Any]:
    return {"allOf": [ref("Problem"), {"properties": {"code": {"enum": codes}}}]}
