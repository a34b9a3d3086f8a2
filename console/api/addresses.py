"""Every address of the API, one line each (design: the HTTP contract); OpenAPI follows it."""

from typing import Final

from console.api import bodies
from console.api.endpoints import (
    approvals,
    claims,
    docs,
    grants,
    health,
    hooks,
    later,
    ledger,
    reading,
    records,
    reports,
)
from console.api.routes import Route
from console.live.events import events

_READ: Final = "operations:read"
_WRITE: Final = "operations:write"
_LEDGER: Final = "ledger:read"
_V1: Final = "/api/v1"
_OP: Final = f"{_V1}/operations/{{idem_key}}"
_APPROVAL: Final = f"{_V1}/approvals/{{id}}"

ROUTES: Final = (
    Route("POST", f"{_V1}/operations", claims.claim, scope=_WRITE, member=claims.member),
    Route("GET", f"{_V1}/operations", reading.list_operations, scope=_READ),
    Route("GET", _OP, reading.read_operation, scope=_READ),
    Route("POST", f"{_OP}/outcome", reports.outcome, scope=_WRITE, member=reports.member),
    Route("POST", f"{_OP}/sending", reports.sending, scope=_WRITE),
    Route("POST", f"{_OP}/heartbeat", reports.heartbeat, scope=_WRITE),
    Route("POST", f"{_OP}/cancel", reports.cancel, scope=_WRITE),
    Route("POST", f"{_OP}/close", reports.close, scope=_WRITE),
    Route(
        "POST",
        f"{_V1}/records",
        records.report,
        scope=_WRITE,
        media=(bodies.JSON, bodies.NDJSON),
        limit=bodies.BATCH_LIMIT,
    ),
    Route("GET", f"{_V1}/records/{{record_id}}", records.read_record, scope=_READ),
    Route("GET", f"{_V1}/runs", reading.list_runs, scope=_READ),
    Route("GET", f"{_V1}/runs/{{run_id}}", reading.read_run, scope=_READ),
    Route("GET", f"{_V1}/tools", reading.list_tools, scope=_READ),
    Route("GET", f"{_V1}/approvals", approvals.list_approvals, who="reviewer"),
    Route("GET", _APPROVAL, approvals.read_approval, who="either", scope=_READ),
    Route("POST", f"{_APPROVAL}/statement", approvals.statement, who="reviewer"),
    Route("POST", f"{_APPROVAL}/decisions", approvals.decide, who="reviewer"),
    Route("POST", f"{_APPROVAL}/grant", grants.mint, scope=_WRITE),
    Route("POST", f"{_V1}/grants/{{jti}}/consume", grants.consume, scope=_WRITE),
    Route("GET", f"{_V1}/ledger/checkpoint", ledger.checkpoint, who="anyone"),
    Route("GET", f"{_V1}/ledger/entries", ledger.entries, scope=_LEDGER),
    Route("GET", f"{_V1}/ledger/proof/inclusion", ledger.inclusion, who="anyone"),
    Route("GET", f"{_V1}/ledger/proof/consistency", ledger.consistency, who="anyone"),
    Route("POST", f"{_V1}/drills", later.drills, who="anyone"),
    Route(
        "POST",
        "/v1/traces",
        later.traces,
        who="anyone",
        media=(bodies.JSON, "application/x-protobuf"),
        limit=bodies.BATCH_LIMIT,
    ),
    Route("GET", f"{_V1}/openapi.json", docs.openapi_json, who="anyone"),
    Route("GET", f"{_V1}/docs", docs.page, who="anyone"),
    Route("GET", "/.well-known/jwks.json", grants.jwks, who="anyone"),
    Route("POST", "/hooks/{kind}/{account}", hooks.receive, who="anyone", limit=hooks.LIMIT),
    Route("GET", "/.well-known/ledger-keys.json", ledger.keys, who="anyone"),
    Route("GET", "/healthz", health.healthz, who="anyone"),
    Route("GET", "/readyz", health.readyz, who="anyone"),
    Route("GET", "/metrics", health.metrics, who="anyone"),
    Route("GET", "/events", events, who="anyone"),
)
