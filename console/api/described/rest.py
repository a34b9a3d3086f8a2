"""Words for health, the live stream, and what a later version answers."""

from typing import Final

from console.api.described.ledger import LEDGER
from console.api.described.schemas import ref
from console.api.described.words import TEXT, V1, Described, Words

_LATER: Final = "Comes with a later version; until then 404."


def _later(summary: str, group: str) -> Words:
    return Words(summary=summary, group=group, says=_LATER, problems=("NOT_FOUND",))


REST: Final[Described] = {
    **LEDGER,
    ("POST", f"{V1}/drills"): _later("Hand in a result of the crash lab", "Drills"),
    ("POST", "/v1/traces"): _later("OTLP/HTTP spans", "Records"),
    ("GET", f"{V1}/openapi.json"): Words(
        summary="This document",
        group="About",
        answers={200: ("OpenAPI 3.1.", {"type": "object"}, None)},
    ),
    ("GET", f"{V1}/docs"): Words(
        summary="This document as a page",
        group="About",
        media="text/html",
        answers={200: ("HTML.", {"type": "string"}, None)},
    ),
    ("POST", "/hooks/{kind}/{account}"): Words(
        summary="A provider's signed message",
        group="Webhooks",
        says="The signature is checked over the raw body; what holds is stored and answered before "
        "it is worked on. `standing` says what it is: `received`, `repeated`, `not_ours`, "
        "`wrong_mode`, `wrong_account` or `unreadable`.",
        body={"type": "object", "description": "As the provider sends it."},
        answers={
            200: (
                "Stored.",
                {
                    "type": "object",
                    "required": ["event", "standing", "times"],
                    "properties": {
                        "event": TEXT,
                        "standing": TEXT,
                        "times": {"type": "integer"},
                    },
                },
                {"event": "evt_1", "standing": "received", "times": 1},
            )
        },
        problems=("INVALID_SIGNATURE", "NOT_FOUND", "UNAVAILABLE"),
    ),
    ("GET", "/healthz"): Words(
        summary="Is this process up?",
        group="Health",
        answers={200: ("It is.", ref("Health"), {"status": "ok"})},
    ),
    ("GET", "/readyz"): Words(
        summary="Is the product ready?",
        group="Health",
        answers={200: ("It is, part by part.", ref("Health"), None)},
        problems=("UNAVAILABLE",),
    ),
    ("GET", "/metrics"): Words(
        summary="Counters for Prometheus",
        group="Health",
        media="text/plain",
        answers={200: ("Text.", {"type": "string"}, None)},
    ),
    ("GET", "/events"): Words(
        summary="The console's live stream",
        group="Console",
        says="Needs a signed-in session. Events carry names and ids only.",
        media="text/event-stream",
        query={
            "topics": (TEXT, "`ops`, `approvals`, `incidents` or ids, comma-separated."),
            "lastEventId": (TEXT, "Where to go on; the Last-Event-ID header says the same."),
        },
        answers={200: ("Server-sent events.", {"type": "string"}, None)},
        problems=("UNAUTHENTICATED",),
    ),
}
