"""Reporting on an attempt: outcome, permit, heartbeat, cancel, close."""

from approvals import endings
from console.api import claim_bodies, problems, shapes
from console.api.requests import Answer, Request
from operations import leases, outcomes
from operations.outcomes import PlainOutcome


def outcome(request: Request) -> Answer:
    """`POST …/outcome`: what happened."""
    key = _key(request)
    report = claim_bodies.outcome_report(request.body)
    return Answer(200, outcomes.report_outcome(request.runtime, key, report))


def member(request: Request) -> PlainOutcome | None:
    """The report of an outcome, if it may be carried out together with others."""
    report = claim_bodies.outcome_report(request.body)
    return outcomes.plain(request.runtime, _key(request), report)


def sending(request: Request) -> Answer:
    """`POST …/sending`: may the bytes leave?"""
    key = _key(request)
    values, _ = shapes.read(shapes.SENDING, request.body)
    return Answer(200, leases.sending(request.runtime, key, **values))


def heartbeat(request: Request) -> Answer:
    """`POST …/heartbeat`: the attempt still runs."""
    key = _key(request)
    values, _ = shapes.read(shapes.HEARTBEAT, request.body)
    return Answer(
        200,
        leases.heartbeat(
            request.runtime, key, values["attempt_number"], values.get("lease_seconds")
        ),
    )


def cancel(request: Request) -> Answer:
    """`POST …/cancel`: a pending operation is no longer wanted."""
    key = _key(request)
    shapes.read(shapes.NOTHING, request.body)
    return Answer(200, endings.cancel(request.runtime, key))


def close(request: Request) -> Answer:
    """`POST …/close`: the intent is no longer wanted, whatever its state."""
    key = _key(request)
    shapes.read(shapes.NOTHING, request.body)
    return Answer(200, endings.close(request.runtime, key))


def _key(request: Request) -> str:
    key = request.params["idem_key"]
    if not shapes.is_idem_key(key):
        raise problems.not_found("There is no such operation for this key.")
    return key
