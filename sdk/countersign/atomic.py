"""Effects in your own Postgres: effect, its record and its result in one transaction (level 4).

Nothing can come between them, so no claim is needed: a row in `countersign_outbox` is the guard,
and an `OutboxRelay` tells the console afterwards. For tools that need approval use `guard`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from countersign.calls import Call, ClearedCall, Lease, Result, new_id
from countersign.clock import Countdown, now
from countersign.errors import ArgsConflict
from countersign.recording import done_of

if TYPE_CHECKING:
    from countersign.client import Client

DDL = """
CREATE TABLE IF NOT EXISTS countersign_outbox (
    idem_key text PRIMARY KEY,
    run text NOT NULL,
    step integer NOT NULL,
    tool_call_id text NOT NULL,
    position integer,
    tool text NOT NULL,
    args text NOT NULL,
    args_fingerprint text NOT NULL,
    attempt_id text NOT NULL,
    result text,
    provider_ref text,
    committed_at timestamptz NOT NULL DEFAULT now(),
    reported_at timestamptz
);
CREATE INDEX IF NOT EXISTS countersign_outbox_unreported
    ON countersign_outbox (committed_at) WHERE reported_at IS NULL;
"""

_INSERT = """
INSERT INTO countersign_outbox
    (idem_key, run, step, tool_call_id, position, tool, args, args_fingerprint, attempt_id)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (idem_key) DO NOTHING
"""
_FOUND = "SELECT args_fingerprint, tool, result, provider_ref FROM countersign_outbox"
_DONE = "UPDATE countersign_outbox SET result = %s, provider_ref = %s WHERE idem_key = %s"
_UNREPORTED = """
SELECT idem_key, run, step, tool_call_id, position, tool, args, attempt_id, result, provider_ref,
       committed_at
FROM countersign_outbox WHERE reported_at IS NULL
ORDER BY committed_at LIMIT %s FOR UPDATE SKIP LOCKED
"""
_REPORTED = "UPDATE countersign_outbox SET reported_at = now() WHERE idem_key = %s"
_NO_DEADLINE_SECONDS = 10.0**9


class Cursor(Protocol):
    """What is needed of a DB-API cursor whose parameters are written `%s` (psycopg, pg8000)."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, query: Any, params: Any = ..., /) -> Any: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> Any: ...


def execute(cursor: Cursor, call: Call, effect: Callable[[ClearedCall], Any]) -> Result:
    """Runs `effect` unless this call was committed before; both in the caller's transaction.

    The caller commits. Where the effect raises, its work and the guard are undone (savepoint), the
    exception goes on, and the call may be made again. A second process with the same call waits for
    this transaction and then finds the result. Raises ArgsConflict for other arguments.
    """
    cursor.execute("SAVEPOINT countersign")
    attempt_id = new_id()
    cursor.execute(
        _INSERT,
        (
            call.idem_key,
            json.dumps(call.run.document()),
            call.step,
            call.tool_call_id,
            call.options.get("position"),
            call.tool,
            call.args_bytes.decode(),
            call.args_fingerprint,
            attempt_id,
        ),
    )
    if cursor.rowcount == 0:
        cursor.execute("RELEASE SAVEPOINT countersign")
        return _replayed(cursor, call)
    try:
        value = effect(_cleared(call, attempt_id))
    except BaseException:
        cursor.execute("ROLLBACK TO SAVEPOINT countersign")
        cursor.execute("RELEASE SAVEPOINT countersign")
        raise
    done = done_of(value)
    cursor.execute(_DONE, (json.dumps(done.result), done.provider_ref, call.idem_key))
    cursor.execute("RELEASE SAVEPOINT countersign")
    return Result(
        value=value,
        result=done.result,
        replayed=False,
        idem_key=call.idem_key,
        provider_ref=done.provider_ref,
        effect_status=done.effect_status,
        attempt_number=1,
        reported=False,
    )


def _replayed(cursor: Cursor, call: Call) -> Result:
    cursor.execute(f"{_FOUND} WHERE idem_key = %s", (call.idem_key,))
    row = cursor.fetchone()
    if row is None:
        raise RuntimeError(
            "the call was committed by a transaction that this one cannot see: run it at READ "
            "COMMITTED, or start again in a new transaction"
        )
    fingerprint, tool, result, provider_ref = row
    if fingerprint != call.args_fingerprint or tool != call.tool:
        raise ArgsConflict(
            f"{call.tool} (run {call.run.id}, step {call.step}) was not executed: this call was "
            "committed before with other arguments, and its first result stands. Run what was "
            "persisted; other arguments need another step or call id.",
            problem={"idem_key": call.idem_key},
        )
    value = json.loads(result) if result is not None else None
    return Result(value, value, True, call.idem_key, provider_ref, attempt_number=1)


def _cleared(call: Call, attempt_id: str) -> ClearedCall:
    return ClearedCall(
        run_id=call.run.id,
        step=call.step,
        tool_call_id=call.tool_call_id,
        tool=call.tool,
        idem_key=call.idem_key,
        args_bytes=call.args_bytes,
        args_fingerprint=call.args_fingerprint,
        attempt_number=1,
        attempt_id=attempt_id,
        first_sent_at=None,
        grant=None,
        # The database's own locks fence this attempt.
        permit=Countdown(now(), _NO_DEADLINE_SECONDS),
        lease=Lease(call.idem_key, 1, _NO_DEADLINE_SECONDS),
    )


@dataclass(frozen=True)
class OutboxRelay:
    """Tells the console what was committed. `connect` opens a DB-API connection. Several may run:
    each row is told by one of them, and telling twice is harmless."""

    client: "Client"
    connect: Callable[[], Any]

    def run_once(self, limit: int = 500) -> int:
        """How many calls were told of; call again while it is `limit`. Raises ConsoleUnavailable
        while the console is away: the table keeps them, so no spool has to."""
        connection = self.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(_UNREPORTED, (limit,))
            rows = cursor.fetchall()
            if rows:
                records = [record for row in rows for record in _records(row)]
                self.client.records(records, spool=False)
                for row in rows:
                    cursor.execute(_REPORTED, (row[0],))
            connection.commit()
            return len(rows)
        finally:
            connection.close()


def _records(row: Any) -> list[dict[str, Any]]:
    key, run, step, call_id, position, tool, args, attempt_id, result, ref, committed_at = row
    about: dict[str, Any] = {
        "occurred_at": committed_at.isoformat(),
        "run": json.loads(run),
        "step": step,
        "idem_key": key,
        "tool": tool,
        "attempt": {"id": attempt_id},
    }
    if call_id:
        about["tool_call_id"] = call_id
    if position is not None:
        about["position"] = position
    committed = {"result": json.loads(result) if result is not None else None}
    if ref is not None:
        committed["provider_ref"] = ref
    return [
        # Named by the call: a relay that dies before it could note its success says nothing new.
        about | {"record_id": f"{key}:invoked", "type": "TOOL_INVOKED", "args": json.loads(args)},
        about | committed | {"record_id": f"{key}:committed", "type": "TOOL_COMMITTED"},
    ]
