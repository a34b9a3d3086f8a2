"""Words for operations, records and runs."""

from typing import Any, Final

from console.api import shapes
from console.api.described.schemas import ref
from console.api.described.words import PAGES, TEXT, V1, WAIT, Described, Words
from console.api.fields import Shape

_CLAIM: Final = {
    "run": {"id": "run_7f3", "agent": "renewals", "trigger": "stripe:evt_9"},
    "step": 3,
    "tool_call_id": "call_abc",
    "tool": "stripe.charge",
    "args": {"customer": "cus_42", "amount": 25000, "currency": "usd"},
    "attempt": {"id": "01J9ZD3M4T", "layer": "step", "worker": "w3"},
    "lease_seconds": 60,
    "fenced": True,
    "send_token": "k3Jx…",
}
_COMMITTED: Final = {
    "attempt_number": 1,
    "attempt_id": "01J9ZD3M4T",
    "outcome": "committed",
    "result": {"id": "pi_3Q", "status": "succeeded"},
    "provider_ref": "pi_3Q",
    "effect_status": "succeeded",
}
_RECORD: Final = {
    "record_id": "r-1",
    "type": "TOOL_COMMITTED",
    "run": {"id": "run_7f3", "agent": "renewals"},
    "step": 3,
    "tool_call_id": "call_abc",
    "tool": "stripe.charge",
    "result": {"id": "pi_3Q"},
    "provider_ref": "pi_3Q",
}
_PERMIT_REFUSALS: Final = (
    "LEASE_LOST",
    "SEND_TOKEN_TAKEN",
    "ALREADY_COMMITTED",
    "APPROVAL_REVOKED",
    "KEY_EXPIRING",
)


def _report(summary: str, says: str, shape: Shape, *problems: str, **more: Any) -> Words:
    answer = ("The operation as it is now.", ref("ReportAnswer"), None)
    return Words(
        summary=summary,
        group="Operations",
        says=says,
        body=shape.schema(),
        answers={200: answer},
        problems=("VALIDATION_ERROR", "UNKNOWN_FIELD", *problems),
        **more,
    )


OPERATIONS: Final[Described] = {
    ("POST", f"{V1}/operations"): Words(
        summary="Claim: may I execute this call?",
        group="Operations",
        says="Records the intent and says what to do. Put `idem_key` in the provider request. "
        "Repeating a claim with the same `attempt.id` while its lease lives gives the same answer.",
        body=shapes.CLAIM.schema(),
        body_example=_CLAIM,
        answers={
            200: (
                "`replay`: it was done before; here is its result.",
                ref("ClaimAnswer"),
                {"decision": "replay", "result": {"id": "pi_3Q"}, "provider_ref": "pi_3Q"},
            ),
            201: (
                "`execute`: the caller holds the lease.",
                ref("ClaimAnswer"),
                {"decision": "execute", "attempt_number": 1, "send_within_ms": 55000},
            ),
            202: (
                "`await_approval`, `delegated` or `await_reconciliation`: not now.",
                ref("ClaimAnswer"),
                {
                    "decision": "await_approval",
                    "approval": {"id": "apr_…"},
                    "retry_after_seconds": 5,
                },
            ),
        },
        problems=(
            "ATTEMPT_IN_FLIGHT",
            "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS",
            "KEY_COLLISION",
            "OPERATION_PREVIOUSLY_FAILED",
            "DUPLICATE_RUN",
            "COMPENSATION_EXISTS",
            "INVALID_ARGS",
            "FINGERPRINT_MISMATCH",
            "TOOL_CALL_ID_MISSING",
            "UNKNOWN_FIELD",
            "VALIDATION_ERROR",
            "BUDGET_EXCEEDED",
            "ATTEMPTS_EXHAUSTED",
            "GOAL_ATTEMPTS_EXHAUSTED",
        ),
    ),
    ("GET", f"{V1}/operations"): Words(
        summary="List operations, newest first",
        group="Operations",
        query={
            "state": (TEXT, "One state."),
            "tool": (TEXT, "One tool."),
            "run": (TEXT, "One run, by its own id."),
            **PAGES,
        },
        answers={200: ("One page.", ref("OperationPage"), None)},
        problems=("VALIDATION_ERROR", "UNKNOWN_FIELD"),
    ),
    ("GET", f"{V1}/operations/{{idem_key}}"): Words(
        summary="Read an operation, or wait until it changes",
        group="Operations",
        query=WAIT,
        answers={200: ("The operation.", ref("Operation"), None)},
        problems=("VALIDATION_ERROR",),
    ),
    ("POST", f"{V1}/operations/{{idem_key}}/outcome"): _report(
        "Report what happened",
        "Positive reports are believed from any attempt, however late. `failed` without "
        '`effect: "none"` counts as unknown.',
        shapes.OUTCOME,
        body_example=_COMMITTED,
    ),
    ("POST", f"{V1}/operations/{{idem_key}}/sending"): _report(
        "Ask for the send permit",
        "Every 409 means: do not send.",
        shapes.SENDING,
        *_PERMIT_REFUSALS,
        body_example={"attempt_number": 1, "send_token": "k3Jx…"},
    ),
    ("POST", f"{V1}/operations/{{idem_key}}/heartbeat"): _report(
        "Keep the lease",
        "An hour in all at most.",
        shapes.HEARTBEAT,
        *_PERMIT_REFUSALS,
        body_example={"attempt_number": 1, "lease_seconds": 60},
    ),
    ("POST", f"{V1}/operations/{{idem_key}}/cancel"): _report(
        "Cancel a pending operation", "", shapes.NOTHING, "NOT_CANCELLABLE"
    ),
    ("POST", f"{V1}/operations/{{idem_key}}/close"): _report(
        "Say that the intent is no longer wanted",
        "UNKNOWN is settled, never released.",
        shapes.NOTHING,
    ),
    ("POST", f"{V1}/records"): Words(
        summary="Report what already happened, in batches",
        group="Records",
        says="1 to 5,000 records as a JSON array or a record a line; gzip is accepted. They may "
        "come in any order and twice. A record that is wrong is kept as malformed.",
        body=ref("RecordBatch"),
        body_example=[_RECORD],
        ndjson=ref("Record"),
        query={"verbose": ({"type": "string", "enum": ["0", "1"]}, "List every record's result.")},
        answers={200: ("All are stored.", ref("BatchAnswer"), None)},
        problems=("VALIDATION_ERROR",),
    ),
    ("GET", f"{V1}/records/{{record_id}}"): Words(
        summary="What became of a record",
        group="Records",
        answers={200: ("The record's status.", ref("RecordStatus"), None)},
    ),
    ("GET", f"{V1}/runs"): Words(
        summary="List runs",
        group="Runs",
        query={
            "status": (TEXT, "`unfinished`, or one status."),
            "agent": (TEXT, "One agent."),
            **PAGES,
        },
        answers={200: ("One page.", ref("RunPage"), None)},
        problems=("VALIDATION_ERROR", "UNKNOWN_FIELD"),
    ),
    ("GET", f"{V1}/runs/{{run_id}}"): Words(
        summary="What a restarted agent needs",
        group="Runs",
        answers={200: ("The run, step by step.", ref("RunDocument"), None)},
    ),
    ("GET", f"{V1}/tools"): Words(
        summary="The catalogue, and tools seen without being in it",
        group="Runs",
        answers={200: ("Every tool.", ref("ToolPage"), None)},
    ),
}
