"""Addresses of the contract that a later version answers."""

from console.api import problems
from console.api.requests import Answer, Request


def drills(request: Request) -> Answer:
    """Results of the crash lab."""
    raise problems.not_found("Drill results are taken in by a later version.")


def traces(request: Request) -> Answer:
    """OTLP/HTTP spans."""
    raise problems.not_found("OpenTelemetry traces are taken in by a later version.")
