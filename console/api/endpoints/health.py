"""Probes: is the process up, is the product ready, what do its counters say."""

from console.api import problems
from console.api.requests import Answer, Request


async def healthz(request: Request) -> Answer:
    """`GET /healthz`: this process answers."""
    return Answer(200, {"status": "ok"})


async def readyz(request: Request) -> Answer:
    """`GET /readyz`: every part that the product needs, by name; 503 names those that fail."""
    parts = await request.process.probe()
    failing = [name for name, part in parts.items() if not part["ok"]]
    if failing:
        raise problems.Problem(
            503,
            "UNAVAILABLE",
            "Not ready",
            f"Not ready: {', '.join(failing)}.",
            retryable=True,
            retry_after_seconds=5,
            failing=failing,
            parts=parts,
        )
    return Answer(200, {"status": "ready", "parts": parts})


async def metrics(request: Request) -> Answer:
    """`GET /metrics`: Prometheus text."""
    process = request.process
    return Answer(
        200,
        process.metrics.expose(process.gauges()),
        content_type=b"text/plain; version=0.0.4; charset=utf-8",
    )
