"""Keys as Stripe v1 keeps them: the first status and body, once execution began, errors included.

Kept: 200, 402, 400 of a wrong state, 500. Not kept: validation errors, conflicts, and whatever was
answered in front of this layer (401, 403, 429). A key is forgotten after its retention, and the
same key is then a new request.
"""

import json
import sqlite3
import time
from dataclasses import dataclass

from crashlab.provider.answers import Outcome, key_in_use, other_parameters
from crashlab.provider.shelf import Call, setting

#: Stripe keeps keys "at least 24 hours".
RETENTION_SECONDS = 86_400


@dataclass(frozen=True)
class Replay:
    outcome: Outcome
    request_id: str


def recall(connection: sqlite3.Connection, call: Call, digest: str) -> Replay | None:
    """The kept answer, or None where the key is new.

    Raises Refused 409 while the first request still executes, 400 where the parameters differ.
    """
    row = connection.execute(
        "SELECT * FROM saved_answer WHERE account = ? AND livemode = ? AND idem_key = ?",
        _scope(call),
    ).fetchone()
    if row is None:
        return None
    retention = setting(connection, "key_retention_seconds", RETENTION_SECONDS)
    if row["created_at"] + retention < time.time() and row["status"] is not None:
        return None
    if row["digest"] != digest:
        raise other_parameters(call.idem_key or "", row["endpoint"] == _endpoint(call))
    if row["status"] is None:
        raise key_in_use()
    return Replay(Outcome(row["status"], json.loads(row["body"])), row["request_id"])


def count_arrival(connection: sqlite3.Connection, call: Call) -> None:
    connection.execute(
        "UPDATE saved_answer SET arrivals = arrivals + 1"
        " WHERE account = ? AND livemode = ? AND idem_key = ?",
        _scope(call),
    )


def keep(connection: sqlite3.Connection, call: Call, digest: str, outcome: Outcome | None) -> None:
    """Keeps the answer, or (`outcome` None) that execution is under way, crash or not."""
    connection.execute(
        "INSERT OR REPLACE INTO saved_answer (account, livemode, idem_key, digest, endpoint,"
        " request_id, created_at, status, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *_scope(call),
            digest,
            _endpoint(call),
            call.request_id,
            time.time(),
            outcome.status if outcome else None,
            json.dumps(outcome.body) if outcome else None,
        ),
    )


def forget(connection: sqlite3.Connection, call: Call) -> None:
    connection.execute(
        "DELETE FROM saved_answer WHERE account = ? AND livemode = ? AND idem_key = ?",
        _scope(call),
    )


def _scope(call: Call) -> tuple[str, bool, str | None]:
    return call.account.id, call.account.livemode, call.idem_key


def _endpoint(call: Call) -> str:
    return f"{call.method} {call.path}"
