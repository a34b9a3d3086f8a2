"""Claiming: "may I execute this call?"."""

from approvals import admission
from console.api import claim_bodies
from console.api.requests import Answer, Request
from operations.first_claims import PlainClaim


def member(request: Request) -> PlainClaim | None:
    """The claim, if it may be carried out together with others."""
    return admission.plain(claim_bodies.claim_request(request.body), request.runtime)


def claim(request: Request) -> Answer:
    """`POST /api/v1/operations`."""
    runtime = request.runtime
    answer = admission.admit(claim_bodies.claim_request(request.body), runtime)
    return Answer(answer.status, answer.body, answer.headers)
