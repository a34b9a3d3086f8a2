"""Claiming: "may I execute this call?"."""

from approvals import admission
from console.api import claim_bodies
from console.api.requests import Answer, Request


def claim(request: Request) -> Answer:
    """`POST /api/v1/operations`."""
    runtime = request.runtime
    answer = admission.admit(claim_bodies.claim_request(request.body), runtime)
    return Answer(answer.status, answer.body, answer.headers)
