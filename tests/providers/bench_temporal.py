"""The bench of the temporal provider, for the modules that test it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc

from reconcilers import registry
from reconcilers.evidence import Look
from tests.providers.bench import Bench, access_of, ask, question
from tests.providers.contract_failures import past
from tests.support.gates import OpenGate
from tests.support.temporal_server import TemporalServer

FIXTURES = Path(registry.__file__).parent / "providers" / "temporal" / "fixtures"
TEMPORAL = registry.provider_of("temporal")
NEVER = "00000000-0000-4000-8000-000000000000"

_FAULTS = {
    "refused": grpc.StatusCode.UNAUTHENTICATED,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "throttled": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "outage": grpc.StatusCode.UNAVAILABLE,
    "cut": grpc.StatusCode.INTERNAL,
}


class TemporalBench(Bench):
    kind = "temporal"
    object_kind = "workflow"
    absent_id = f"{NEVER}/never"
    cannot_happen = {"flood": "the client bounds a message, and pages are counted"}

    def __init__(self, server: TemporalServer) -> None:
        self.server = server

    @classmethod
    @contextmanager
    def serving(cls) -> Iterator["TemporalBench"]:
        server = TemporalServer().start_serving()
        try:
            yield cls(server)
        finally:
            server.stop()

    def config(self, **changes: Any) -> dict[str, Any]:
        known = {
            "target": self.server.target,
            "namespace": self.server.namespace,
            "api_key": self.server.api_key,
            "timeout_seconds": 2,
        }
        return known | changes

    def wrong_config(self) -> dict[str, Any]:
        return self.config(api_key="a-key-that-was-revoked")

    def make_effect(self, marker: str) -> str:
        run = self.server.start(marker)
        run.close("completed")
        return f"{run.run_id}/{marker}"

    def bend(self, fault: str) -> None:
        if fault == "hang":
            self.server.hang_seconds = 30
        elif fault == "garbage":
            self.server.answers_garbage = True
        else:
            self.server.faults["*"] = _FAULTS[fault]

    def mend(self) -> None:
        self.server.faults.clear()
        self.server.hang_seconds = 0
        self.server.answers_garbage = False

    def other_accounts(self) -> list[dict[str, Any]]:
        return [self.config(account=str(uuid4())), self.config(namespace="somebody-elses")]

    async def ask(
        self, marker: str, *, gate: OpenGate | None = None, **changes: Any
    ) -> tuple[Look, ...]:
        kind = changes.pop("object_kind", "workflow")
        known = changes.pop("known", None)
        access = access_of(TEMPORAL, "test", self.config(**changes.pop("config", {})))
        asked_about = question(marker, kind, **({"settles_at": past()} | changes))
        asked = await ask(TEMPORAL, access, asked_about, gate=gate, known=known)
        return asked.by_marker[marker]
