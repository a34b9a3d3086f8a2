"""Approvals over the API: runtimes read and wait, reviewers at a command line decide."""

from typing import Any

from approvals import command_line, reading
from console.api import problems, shapes
from console.api.endpoints.reading import operation_id, page, page_size, waiting_of
from console.api.requests import Answer, Request, Reviewer
from operations.actors import Scope


async def read_approval(request: Request) -> Answer:
    """`GET /api/v1/approvals/{id}`: at once, or when its operation's version differs from `since`.

    Every decision raises the operation's version, so one number serves both documents.
    """
    wait, since = waiting_of(request)
    process = request.process
    document = await process.workers.run(_document, request)
    if wait and document["version"] == since:
        await process.waiting.wait(operation_id(document["operation"]), since, wait)
        document = await process.side.run(_document, request)
    return Answer(200, document)


def list_approvals(request: Request) -> Answer:
    """`GET /api/v1/approvals?status=pending`: what reviewers are asked."""
    query = request.query("status", "cursor", "limit")
    return page(
        reading.list_approvals(
            status=query.get("status"), cursor=query.get("cursor"), limit=page_size(query)
        )
    )


def statement(request: Request) -> Answer:
    """`POST …/statement`: the exact bytes to sign."""
    person = request.reviewer
    values, _ = shapes.read(shapes.STATEMENT, request.body)
    told = command_line.start(
        person.user,
        person.session,
        request.params["id"],
        values["verdict"],
        values.get("reason", ""),
    )
    return Answer(200, told)


def decide(request: Request) -> Answer:
    """`POST …/decisions`: the signature over them."""
    person = request.reviewer
    values, _ = shapes.read(shapes.DECISION, request.body)
    told = command_line.finish(
        person.user,
        person.session,
        request.params["id"],
        values["statement_id"],
        values["sshsig"],
    )
    return Answer(200, told)


def _document(request: Request) -> dict[str, Any]:
    scope: Scope | None = None if isinstance(request.caller, Reviewer) else request.runtime.scope
    document = reading.read_approval(scope, request.params["id"])
    if document is None:
        raise problems.not_found("There is no such approval for this key.")
    return {**document, "version": document["operation"]["version"]}
