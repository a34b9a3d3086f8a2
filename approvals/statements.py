"""The statements that people sign: in-toto v1, one subject, closed schema, canonical bytes.

Two predicates: a decision on an approval request, and a resolution of an UNKNOWN operation.
`build` makes the bytes, `parse` reads them and refuses whatever `build` could not have made.
"""

from datetime import UTC, datetime
from typing import Any, Final

from approvals import schema
from approvals.refusals import SignatureRefused
from operations import canonical

STATEMENT: Final = "https://in-toto.io/Statement/v1"
DECISION: Final = "urn:countersign:approval-decision:v1"
RESOLUTION: Final = "urn:countersign:resolution-decision:v1"

METHODS: Final = ("webauthn", "webcrypto", "ssh", "ssh-sk")
CUSTODIES: Final = ("A1", "A2")
COVERAGES: Final = ("full", "opened", "partial")
VERDICTS: Final = ("approve", "deny")
CHOICES: Final = ("settle-committed", "settle-absent", "release", "compensate")

#: Until a checkpoint exists: the tree of no entries (RFC 6962: the hash of the empty string).
EMPTY_LOG: Final = {
    "origin": "none",
    "size": 0,
    "root": "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
}

_CALL: schema.Shape = {
    "tool": schema.name,
    "tool_version": schema.name,
    "schema_sha256": schema.null_or(schema.hex64),
    "idem_key": schema.name,
    "run_id": schema.name,
    "step": schema.count,
    "tool_call_id": schema.text,
}
_REVIEWER: schema.Shape = {
    "id": schema.name,
    "key_id": schema.digest,
    "method": schema.one_of(*METHODS),
    "custody": schema.one_of(*CUSTODIES),
}
_COMMON: dict[str, schema.Shape] = {
    "call": _CALL,
    "agent": {"id": schema.text, "version": schema.text, "runtime": schema.text},
    "scope": {"environment": schema.one_of("live", "test"), "audience": schema.text},
    "reviewer": _REVIEWER,
    "reason": {"code": schema.text, "text": schema.text},
    "display": {
        "renderer": schema.exactly("text/v1"),
        "sha256": schema.hex64,
        "coverage": schema.one_of(*COVERAGES),
        "warnings": schema.list_of(schema.name),
    },
    "log": {"origin": schema.name, "size": schema.count, "root": schema.b64},
    "validity": {"decided_at": schema.utc, "expires_at": schema.utc},
}
_PREDICATES: Final[dict[str, schema.Shape]] = {
    DECISION: {
        **_COMMON,
        "decision": schema.one_of(*VERDICTS),
        "request": {"id": schema.name, "nonce": schema.b64url, "sha256": schema.hex64},
        "policy": {
            "id": schema.name,
            "version": schema.count,
            "sha256": schema.hex64,
            "rule": schema.name,
            "quorum": schema.count,
            "min_custody": schema.one_of("A0", "A1", "A2"),
        },
    },
    RESOLUTION: {
        **_COMMON,
        "decision": schema.one_of(*CHOICES),
        "operation": {"id": schema.name, "version": schema.count, "state": schema.name},
        "evidence": {
            "sha256": schema.hex64,
            "verdict": schema.null_or(schema.name),
            "object_sha256": schema.null_or(schema.hex64),
        },
        "compensation": {
            "tool": schema.null_or(schema.name),
            "args_sha256": schema.null_or(schema.hex64),
        },
        "provider_ref": schema.null_or(schema.name),
        "nonce": schema.b64url,
    },
}


def build(predicate_type: str, idem_key: str, args_sha256: str, predicate: dict[str, Any]) -> bytes:
    """The canonical bytes of a statement; raises where they would not parse again."""
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": f"toolcall:{idem_key}", "digest": {"sha256": args_sha256}}],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    raw = canonical.canonicalize(statement)
    parse(raw, predicate_type)
    return raw


def parse(raw: bytes, predicate_type: str) -> dict[str, Any]:
    """The statement behind the bytes. Checks, in order: JSON (`statement.json`), canonical form
    (`statement.not_canonical`), predicate type (`statement.type`), closed schema
    (`statement.schema`), and that the subject is the call of the predicate (`statement.subject`).
    """
    try:
        statement = canonical.parse_strict(raw)
    except canonical.InvalidJson as fault:
        raise SignatureRefused("statement.json", str(fault)) from fault
    if canonical.canonicalize(statement) != raw:
        raise SignatureRefused("statement.not_canonical", "the bytes are not in canonical form")
    if not isinstance(statement, dict) or statement.get("predicateType") != predicate_type:
        raise SignatureRefused("statement.type", f"this is no {predicate_type}")
    schema.check(
        statement,
        {
            "_type": schema.exactly(STATEMENT),
            "subject": [{"name": schema.name, "digest": {"sha256": schema.hex64}}],
            "predicateType": schema.exactly(predicate_type),
            "predicate": _PREDICATES[predicate_type],
        },
    )
    if len(statement["subject"]) != 1:
        raise SignatureRefused("statement.schema", "/subject has not exactly one entry")
    idem_key = statement["predicate"]["call"]["idem_key"]
    if statement["subject"][0]["name"] != f"toolcall:{idem_key}":
        raise SignatureRefused("statement.subject", "the subject is another call")
    return dict(statement)


def instant(moment: datetime) -> str:
    """UTC with `Z`, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def hex_of(fingerprint: str) -> str:
    """The bare digest of `jcs-sha256:<hex>`."""
    return fingerprint.removeprefix(canonical.FINGERPRINT_PREFIX)
