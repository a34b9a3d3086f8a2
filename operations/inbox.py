"""Evidence for a key that nobody has claimed yet; the transaction that claims it reads it first."""

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from operations.actors import Scope
from operations.rows import LockedOperation

#: An outcome for a key that nobody has claimed.
OUTCOME: Final = "outcome"
#: A positive outcome that names an attempt which was never issued.
NEVER_ISSUED: Final = "outcome:never-issued"

_KEEP: Final = """
INSERT INTO operations_inboxitem (environment, namespace, idem_key, source, body, sha256, runtime)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (environment, namespace, idem_key, sha256) DO NOTHING
RETURNING id
"""
_READ: Final = """
UPDATE operations_inboxitem SET matched_at = clock_timestamp()
 WHERE environment = %s AND namespace = %s AND idem_key = %s AND matched_at IS NULL
RETURNING id, source, body, runtime
"""


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of evidence, as it came."""

    id: int
    source: str
    body: bytes
    runtime: UUID | None

    def outcome(self) -> dict[str, Any]:
        """The outcome that it reports, or {} where it is only a hint (a webhook, a record)."""
        if not self.source.startswith(OUTCOME):
            return {}
        report = json.loads(self.body)
        return report if isinstance(report, dict) else {}


def keep(
    cur: Any,
    scope: Scope,
    idem_key: str,
    *,
    source: str,
    body: bytes,
    runtime: UUID | None = None,
) -> bool:
    """Keep evidence once; True where it is new. `body` is what came, or its canonical form."""
    digest = sha256(body).digest()
    cur.execute(_KEEP, (*scope, idem_key, source, body, digest, runtime))
    return cur.fetchone() is not None


def take(cur: Any, op: LockedOperation) -> list[Item]:
    """What waits for this operation, oldest first, marked as matched: the caller judges it."""
    cur.execute(_READ, (*op.scope, op.idem_key))
    return sorted((Item(*row) for row in cur.fetchall()), key=lambda item: item.id)
