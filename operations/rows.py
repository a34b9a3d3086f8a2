"""The operation's row under lock, and the cursor of the hot path.

Order of locks, everywhere, so that no two transactions can wait for each other:
run row, then the original of a compensation, then the operation, then its compensation. Nobody
who holds an operation's row asks for a run's. Locks are FOR NO KEY UPDATE: they exclude each
other as FOR UPDATE does, and let foreign key checks of other tables pass.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import psycopg
from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    OperationalError,
    connection,
    connections,
)

from operations.actors import Scope
from operations.ids import handle

#: Statements that one connection prepares after they were seen this often.
_PREPARE_AFTER: Final = 2
JSON_COLUMNS: Final = frozenset({"verdict", "flags"})
_QUIET: Final = frozenset(
    {"lease_expires_at", "waiting_on", "waiting_until", "replays", "verdict", "flags"}
)


@dataclass(slots=True)
class LockedOperation:
    """One operation, as it stands under the lock that this transaction holds.

    `run_pk` is the run's row, `run_id` the runtime's own name for it. `transition()` and
    `record_event()` keep the fields in step with the row.
    """

    id: UUID
    environment: str
    namespace: str
    idem_key: str
    derived_key: str
    run_pk: UUID
    step: int
    tool_call_id: str
    position: int | None
    id_missing: bool
    tool: str
    tool_version: int | None
    tool_class: str
    catalogue_version: int
    args_fingerprint: str | None
    goal: str | None
    amount_minor: int | None
    currency: str | None
    executor: str
    compensates_id: UUID | None
    compensation_slot: UUID | None
    superseded_by_id: UUID | None
    mode: str
    state: str
    version: int
    failure: str | None
    closed: bool
    closed_as: str | None
    waiting_on: str | None
    waiting_until: datetime | None
    release_reason: str | None
    gate: str
    gate_ref: str | None
    gate_expires_at: datetime | None
    gate_used: bool
    attempt_number: int
    attempts: int
    lease_expires_at: datetime | None
    first_sent_at: datetime | None
    key_expires_at: datetime | None
    provider_ref: str | None
    effect_status: str | None
    verdict: dict[str, Any] | None
    flags: list[str]
    replays: int
    created_at: datetime
    updated_at: datetime
    run_id: str
    agent: str
    agent_version: str | None
    prompt_version: str | None
    code_version: str | None

    @property
    def scope(self) -> Scope:
        return Scope(self.environment, self.namespace)

    @property
    def handle(self) -> str:
        return handle("op", self.id)

    def apply(self, columns: Mapping[str, Any]) -> None:
        """Take over what was written to the row."""
        for name, value in columns.items():
            setattr(self, name, value)


_RUN_COLUMNS: Final = ("run_id", "agent", "agent_version", "prompt_version", "code_version")


def _source(name: str) -> str:
    if name == "run_pk":
        return "o.run_id"
    return f"r.{name}" if name in _RUN_COLUMNS else f"o.{name}"


#: Select list that gives a LockedOperation, from `operations_operation o` and its run `r`.
COLUMNS: Final = ", ".join(_source(field.name) for field in fields(LockedOperation))
_JSON_AT: Final = tuple(
    index for index, field in enumerate(fields(LockedOperation)) if field.name in JSON_COLUMNS
)
WIDTH: Final = len(fields(LockedOperation))


def in_scope(table: str, environment: str = "%s", namespace: str = "%s") -> str:
    """The condition that a row found by its own key belongs to a scope.

    IS NOT DISTINCT FROM cannot use an index, and must not: while a table has no statistics yet,
    every row of the scope looks as good a way in as the key itself, and such a plan is kept.
    """
    return (
        f"{table}.environment IS NOT DISTINCT FROM {environment}"
        f" AND {table}.namespace IS NOT DISTINCT FROM {namespace}"
    )


_SELECT: Final = f"""
SELECT {COLUMNS} FROM operations_operation o JOIN operations_run r ON r.id = o.run_id
"""  # noqa: S608
_BY_ID: Final = _SELECT + " WHERE o.id = %s"
_BY_KEY: Final = _SELECT + f" WHERE {in_scope('o')} AND o.idem_key = %s"
_LOCK: Final = " FOR NO KEY UPDATE OF o"


def from_tuple(row: tuple[Any, ...]) -> LockedOperation:
    """A LockedOperation from the columns of `COLUMNS`, whatever the connection makes of jsonb."""
    values = list(row[:WIDTH])
    for index in _JSON_AT:
        if isinstance(values[index], str | bytes):
            values[index] = json.loads(values[index])
    return LockedOperation(*values)


def lock(
    cur: Any,
    *,
    op_id: UUID | None = None,
    scope: Scope | None = None,
    idem_key: str | None = None,
) -> LockedOperation | None:
    """Lock one operation, by id or by key within a scope; None where there is none."""
    return _one(cur, _LOCK, op_id=op_id, scope=scope, idem_key=idem_key)


def read(
    cur: Any,
    *,
    op_id: UUID | None = None,
    scope: Scope | None = None,
    idem_key: str | None = None,
) -> LockedOperation | None:
    """The same row without the lock: good for what can never change, such as COMMITTED."""
    return _one(cur, "", op_id=op_id, scope=scope, idem_key=idem_key)


def _one(
    cur: Any, suffix: str, *, op_id: UUID | None, scope: Scope | None, idem_key: str | None
) -> LockedOperation | None:
    if op_id is not None:
        cur.execute(_BY_ID + suffix, (op_id,))
    elif scope is not None and idem_key is not None:
        cur.execute(_BY_KEY + suffix, (*scope, idem_key))
    else:
        raise TypeError("an operation is found by op_id, or by scope and idem_key")
    row = cur.fetchone()
    return from_tuple(row) if row else None


def touch(cur: Any, op: LockedOperation, **columns: Any) -> None:
    """Write columns that are no event: a heartbeat's lease, a count of replays, a next look.

    The version stays; the state cannot be written here.
    """
    if not columns.keys() <= _QUIET:
        raise TypeError(f"only {sorted(_QUIET)} change without an event")
    written = ", ".join(f"{name} = %s" for name in columns)
    cur.execute(
        f"UPDATE operations_operation SET {written} WHERE id = %s",  # noqa: S608 -- our own names
        (*(encoded(name, value) for name, value in columns.items()), op.id),
    )
    op.apply(columns)


def count_replay(cur: Any, op: LockedOperation) -> None:
    """One more answer was given from the recorded result. Needs no lock of ours."""
    cur.execute(
        "UPDATE operations_operation SET replays = replays + 1 WHERE id = %s RETURNING replays",
        (op.id,),
    )
    op.replays = cur.fetchone()[0]


def encoded(name: str, value: Any) -> Any:
    """A column's value as it is bound; jsonb columns go as JSON text."""
    return json.dumps(value) if name in JSON_COLUMNS and value is not None else value


def one_line(sql: str) -> str:
    """A statement without its indentation: the driver parses those beyond 4,096 characters anew.

    For statements without comments and without blanks that matter inside literals.
    """
    return " ".join(sql.split())


def clock(cur: Any) -> datetime:
    """The database's clock now; `now()` is when the transaction began, perhaps before a wait."""
    cur.execute("SELECT clock_timestamp()")
    moment: datetime = cur.fetchone()[0]
    return moment


def alone[T](work: Callable[[psycopg.Cursor[Any]], T]) -> T:
    """Run what is one transaction by itself: one statement, or one pipeline. No BEGIN, no COMMIT.

    Saves two round trips of three. `work` must be harmless when repeated: where the connection is
    lost half-way it is run once more on a new one. If that fails too nobody knows whether it was
    stored, which `is_commit_uncertain` on the connection tells whoever answers. Inside a
    transaction of the caller's it simply takes part in it.
    """
    if connection.in_atomic_block:
        with hot_cursor() as cur:
            return work(cur)
    try:
        with hot_cursor() as cur:
            return work(cur)
    except (OperationalError, InterfaceError):
        if not _is_lost():
            raise
        connection.close()
    try:
        with hot_cursor() as cur:
            return work(cur)
    except (OperationalError, InterfaceError):
        vars(connections[DEFAULT_DB_ALIAS])["is_commit_uncertain"] = True
        raise


def _is_lost() -> bool:
    return connection.connection is None or bool(connection.connection.closed)


@contextmanager
def hot_cursor() -> Iterator[psycopg.Cursor[Any]]:
    """A cursor that binds on the server, so that repeated statements are prepared.

    Django's own cursors interpolate on the client and are never prepared. Errors come out as
    Django's, as from any other cursor.
    """
    connection.ensure_connection()
    raw = connection.connection
    if raw.prepare_threshold is None and not connection.settings_dict.get(
        "DISABLE_SERVER_SIDE_CURSORS"
    ):
        raw.prepare_threshold = _PREPARE_AFTER
    with connection.wrap_database_errors, psycopg.Cursor(raw) as cur:
        yield cur
