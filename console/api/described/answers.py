"""What answers look like: the components of the OpenAPI document."""

from typing import Final

from console.api.described.ledger import LEDGER_SCHEMAS
from console.api.described.schemas import (
    ANY,
    MAYBE_TEXT,
    MAYBE_TIME,
    TEXT,
    TIME,
    WHOLE,
    YES_NO,
    Schema,
    either_null,
    maybe,
    page,
    ref,
    thing,
)
from console.api.described.signed import APPROVAL_SCHEMAS
from operations import states
from operations.models.catalogue import TOOL_CLASSES
from operations.models.reports import RECORD_TYPES

DECISIONS: Final = (
    "execute",
    "replay",
    "await_approval",
    "await_reconciliation",
    "delegated",
    "in_flight",
    "refused",
)

PROBLEM: Final = thing(
    {
        "type": {
            "type": "string",
            "format": "uri",
            "examples": ["urn:countersign:problem:not-found"],
        },
        "title": TEXT,
        "status": WHOLE,
        "detail": TEXT,
        "code": TEXT,
        "retryable": YES_NO,
        "retry_after_seconds": maybe("number"),
        "pointer": {"type": "string", "description": "JSON Pointer into the body, or ?parameter."},
        "idem_key": TEXT,
        "operation_url": {"type": "string", "format": "uri"},
    },
    needs=["type", "title", "status", "detail", "code", "retryable", "retry_after_seconds"],
)

VERDICT: Final = thing(
    {
        "kind": TEXT,
        "settles_at": MAYBE_TIME,
        "next_check_at": MAYBE_TIME,
        "evidence": WHOLE,
        "sentence": TEXT,
    },
    needs=["kind"],
)

APPROVAL_REF: Final = thing({"id": TEXT, "url": TEXT, "expires_at": MAYBE_TIME}, needs=["id"])

OPERATION: Final = thing(
    {
        "id": {"type": "string", "examples": ["op_00sm8w6g7q1v3r9d2c5t4x0zka"]},
        "idem_key": TEXT,
        "environment": {"type": "string", "enum": ["live", "test"]},
        "namespace": TEXT,
        "run_id": TEXT,
        "step": WHOLE,
        "tool_call_id": TEXT,
        "position": maybe("integer"),
        "tool": TEXT,
        "args_fingerprint": MAYBE_TEXT,
        "state": {"type": "string", "enum": list(states.STATES)},
        "failure": {"type": ["string", "null"], "enum": [*states.FAILURES, None]},
        "waiting_on": {"type": ["string", "null"], "enum": [*states.WAITING_ON, None]},
        "closed": YES_NO,
        "decision": {"type": "string", "enum": list(DECISIONS)},
        "version": WHOLE,
        "attempts": WHOLE,
        "attempt_number": WHOLE,
        "result": ANY,
        "result_erased": YES_NO,
        "provider_ref": MAYBE_TEXT,
        "effect_status": MAYBE_TEXT,
        "amount_minor": maybe("integer"),
        "currency": MAYBE_TEXT,
        "possible_windows": {"type": "array", "items": TEXT},
        "verdict": either_null(ref("Verdict")),
        "approval": either_null(ref("ApprovalRef")),
        "incidents": {
            "type": "array",
            "items": thing(
                {
                    "id": TEXT,
                    "kind": {"type": "string", "enum": list(states.INCIDENT_KINDS)},
                    "opened_at": TIME,
                }
            ),
        },
        "superseded_by": MAYBE_TEXT,
        "compensates": MAYBE_TEXT,
        "key_expires_at": MAYBE_TIME,
        "created_at": TIME,
        "updated_at": TIME,
        "url": {"type": "string", "format": "uri"},
    }
)

CLAIM_ANSWER: Final = thing(
    {
        "decision": {"type": "string", "enum": list(DECISIONS)},
        "operation": ref("Operation"),
        "idem_key": TEXT,
        "args_fingerprint": TEXT,
        "attempt_number": maybe("integer"),
        "attempt_id": MAYBE_TEXT,
        "lease_expires_at": MAYBE_TIME,
        "send_within_ms": maybe(
            "integer", description="The send permit, counted by the sender from before it asked."
        ),
        "first_sent_at": MAYBE_TIME,
        "grant": {"description": "What the approval gave, when the call is gated; else null."},
        "result": ANY,
        "provider_ref": MAYBE_TEXT,
        "approval": either_null(ref("ApprovalRef")),
        "verdict": either_null(ref("Verdict")),
        "next_check_at": MAYBE_TIME,
        "retry_after_seconds": maybe("number"),
    },
    needs=["decision", "operation", "idem_key", "args_fingerprint"],
)

REPORT_ANSWER: Final = thing(
    {
        "operation": ref("Operation"),
        "superseded": YES_NO,
        "send_within_ms": maybe("integer"),
        "lease_expires_at": MAYBE_TIME,
    },
    needs=["operation", "superseded"],
)

RECORD: Final[Schema] = {
    "type": "object",
    "description": "One fact. Unknown members make the record malformed, never its batch.",
    "required": ["type"],
    "properties": {
        "record_id": {"type": "string", "maxLength": 128, "description": "Unique per namespace."},
        "type": {"type": "string", "enum": list(RECORD_TYPES)},
        "occurred_at": TIME,
        "run": thing({"id": TEXT, "agent": TEXT}, needs=["id"]),
        "step": {"type": "integer", "minimum": 0},
        "tool_call_id": TEXT,
        "position": {"type": "integer", "minimum": 0},
        "tool": TEXT,
        "args": ANY,
        "args_raw": TEXT,
        "idem_key": TEXT,
        "goal": TEXT,
        "model_output": ANY,
        "replayed": YES_NO,
        "attempt": thing({"id": TEXT, "layer": TEXT, "worker": TEXT}, needs=[]),
        "effect": TEXT,
        "permanent": YES_NO,
        "result": ANY,
        "provider_ref": TEXT,
        "effect_status": TEXT,
        "error": ANY,
    },
}

RECORD_STATUS: Final = thing(
    {
        "record_id": TEXT,
        "status": {"type": "string", "enum": ["accepted", "duplicate", "malformed", "incident"]},
        "received_at": TIME,
        "idem_key": MAYBE_TEXT,
        "code": MAYBE_TEXT,
        "pointer": MAYBE_TEXT,
    },
    needs=["record_id", "status", "idem_key", "code", "pointer"],
)

BATCH_ANSWER: Final = thing(
    {
        "accepted": WHOLE,
        "duplicates": WHOLE,
        "malformed": WHOLE,
        "incidents": WHOLE,
        "results": {"type": "array", "items": ref("RecordStatus")},
    }
)

_RUN_STATUS: Final[Schema] = {
    "type": "string",
    "enum": ["running", "waiting", "finished", "failed", "abandoned"],
}

RUN_FACTS: Final = thing(
    {
        "id": TEXT,
        "agent": TEXT,
        "agent_version": MAYBE_TEXT,
        "prompt_version": MAYBE_TEXT,
        "code_version": MAYBE_TEXT,
        "trigger": MAYBE_TEXT,
        "budget": maybe("object"),
    }
)

RUN: Final = thing(
    {
        "run": ref("RunFacts"),
        "run_id": TEXT,
        "status": _RUN_STATUS,
        "created_at": TIME,
        "finished_at": MAYBE_TIME,
        "url": TEXT,
    }
)

RUN_DOCUMENT: Final = thing(
    {
        "run": ref("RunFacts"),
        "status": _RUN_STATUS,
        "resume_from_step": maybe("integer"),
        "steps": {
            "type": "array",
            "items": thing(
                {
                    "step": WHOLE,
                    "execution": {"type": ["string", "null"], "enum": ["fresh", "replayed", None]},
                    "model_output": ANY,
                    "operations": {"type": "array", "items": ref("Operation")},
                }
            ),
        },
    }
)

TOOL: Final = thing(
    {
        "name": TEXT,
        "registered": {
            "type": "boolean",
            "description": "False: in use, and not in the catalogue.",
        },
        "version": maybe("integer"),
        "class": {"type": "string", "enum": list(TOOL_CLASSES)},
        "provider": MAYBE_TEXT,
        "reconciler": MAYBE_TEXT,
        "lookups": {"type": "array", "items": TEXT},
        "uniqueness_guard": MAYBE_TEXT,
        "key": thing({"accepts": YES_NO, "retention_hours": maybe("integer")}),
        "client_timeout_seconds": WHOLE,
        "client_tries": WHOLE,
        "provider_max_seconds": WHOLE,
        "lease_seconds": WHOLE,
        "retention_days": WHOLE,
    }
)

SCHEMAS: Final[dict[str, Schema]] = {
    "Problem": PROBLEM,
    "Verdict": VERDICT,
    "ApprovalRef": APPROVAL_REF,
    "Operation": OPERATION,
    "OperationPage": page("Operation"),
    "ClaimAnswer": CLAIM_ANSWER,
    "ReportAnswer": REPORT_ANSWER,
    "Record": RECORD,
    "RecordBatch": {"type": "array", "items": ref("Record"), "minItems": 1, "maxItems": 5000},
    "RecordStatus": RECORD_STATUS,
    "BatchAnswer": BATCH_ANSWER,
    "RunFacts": RUN_FACTS,
    "Run": RUN,
    "RunPage": page("Run"),
    "RunDocument": RUN_DOCUMENT,
    "Tool": TOOL,
    "ToolPage": page("Tool"),
    **APPROVAL_SCHEMAS,
    **LEDGER_SCHEMAS,
    "Keys": thing({"keys": {"type": "array", "items": {"type": "object"}}}),
    "Health": thing({"status": TEXT, "parts": {"type": "object"}}, needs=["status"]),
}
