"""Single-use grants for tool servers that execute on a runtime's behalf."""

from approvals import grants
from approvals import jwks as keys
from console.api import shapes
from console.api.requests import Answer, Request


def mint(request: Request) -> Answer:
    """`POST /api/v1/approvals/{id}/grant`: the same grant for the same claim id."""
    values, _ = shapes.read(shapes.GRANT, request.body)
    return Answer(200, grants.mint(request.runtime, request.params["id"], values["claim_id"]))


def consume(request: Request) -> Answer:
    """`POST /api/v1/grants/{jti}/consume`: PENDING to INVOKED, once."""
    values, _ = shapes.read(shapes.CONSUME, request.body)
    return Answer(
        200,
        grants.consume(
            request.runtime,
            request.params["jti"],
            values["claim_id"],
            values["args_fingerprint"],
        ),
    )


def jwks(request: Request) -> Answer:
    """`GET /.well-known/jwks.json`: the public keys that verify grants."""
    return Answer(200, keys.jwks(), {"Cache-Control": "public, max-age=60"})
