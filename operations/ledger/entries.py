"""What is hashed: a canonical JSON document for each sealed event, which names the one before.

    {"type": "urn:countersign:ledger-entry:v1", "seq": 12, "prev": "<hex of the leaf hash of #11>",
     "event": {"id", "type", "operation", "run", "version", "from_state", "to_state",
               "environment", "namespace", "actor", "at", "data"}}

The first entry's `prev` is null. An entry is never stored: it is made again from the event's row,
so a row that was edited has another hash. `event` is null where an admin signed for its loss.
"""

import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from operations import jcs
from operations.faults import InvalidJson
from operations.ids import handle
from operations.ledger import merkle

ENTRY_TYPE: Final = "urn:countersign:ledger-entry:v1"
#: What a person or a key did must be in a published checkpoint at once; the rest within a minute.
URGENT: Final = ("approval.", "resolution.", "key.", "ledger.", "policy.", "user.")

#: Sealed events after a number, at most so many; one whose row is gone has no id.
READ: Final = """
SELECT s.seq, e.id, e.type, e.operation_id, e.run_id, e.version, e.from_state, e.to_state,
       e.environment, e.namespace, e.actor,
       to_char(e.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), e.data::text
  FROM operations_sealedevent s LEFT JOIN operations_event e ON e.id = s.event_id
 WHERE s.seq > %s ORDER BY s.seq LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry's bytes, its leaf hash, and what readers need to know about it."""

    seq: int
    raw: bytes
    leaf: bytes
    type: str
    operation_id: UUID | None
    environment: str
    namespace: str

    @property
    def is_urgent(self) -> bool:
        """Whether a checkpoint is due now."""
        return self.type.startswith(URGENT)


def of_row(row: tuple[Any, ...], prev: bytes) -> Entry:
    """The entry of a row of `READ`; `prev` is the leaf hash before it, empty for the first."""
    (seq, event_id, kind, operation_id, run_id, version, from_state, to_state, environment,
     namespace, actor, at, data) = row  # fmt: skip
    document = {
        "type": ENTRY_TYPE,
        "seq": seq,
        "prev": prev.hex() or None,
        "event": {
            "id": event_id,
            "type": kind,
            "operation": handle("op", operation_id) if operation_id else None,
            "run": handle("run", run_id) if run_id else None,
            "version": version,
            "from_state": from_state,
            "to_state": to_state,
            "environment": environment,
            "namespace": namespace,
            "actor": actor,
            "at": at,
            "data": None,
        },
    }
    raw = _canonical(document, data)
    leaf = merkle.leaf_hash(raw)
    return Entry(seq, raw, leaf, kind, operation_id, environment, namespace)


def lost(seq: int, prev: bytes) -> Entry:
    """The entry of an event that is gone, in a log that began after an admin signed for that."""
    document = {"type": ENTRY_TYPE, "seq": seq, "prev": prev.hex() or None, "event": None}
    raw = jcs.canonicalize(document)
    return Entry(seq, raw, merkle.leaf_hash(raw), "lost", None, "", "")


def _canonical(document: dict[str, Any], data: str) -> bytes:
    """A number that no double holds stays in the text that the database gives."""
    try:
        document["event"]["data"] = json.loads(data)
        return jcs.canonicalize(document)
    except (InvalidJson, ValueError, RecursionError):
        document["event"]["data"] = {"text": data}
        return jcs.canonicalize(document)
