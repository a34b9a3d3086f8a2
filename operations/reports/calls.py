"""Which operation each record is about: found or made, and locked, set-based.

New rows are inserted first, in the order of their keys; then everything that existed is locked in
the order of its id. A batch that waits for a lock has no insert ahead of it, so batches cannot
wait for each other in a circle.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from operations import arrays, rows
from operations.actors import Runtime, Scope
from operations.catalogue import Catalogue
from operations.errors import StateConflict
from operations.ids import uuid7
from operations.reports import births
from operations.reports.births import Call
from operations.reports.reported import Reported
from operations.reports.runs import RunRow

#: Key by key, by the unique index: for a list of keys, a table that has no statistics yet would be
#: read whole. (LIMIT keeps the planner from joining it in another way.)
_FIND: Final = """
SELECT o.id, o.idem_key, o.derived_key
  FROM unnest(%(keys)s::text[]) AS said(key) CROSS JOIN LATERAL (
       SELECT id, idem_key, derived_key FROM operations_operation
        WHERE environment = %(environment)s AND namespace = %(namespace)s
          AND idem_key = said.key LIMIT 1) AS o
UNION
SELECT o.id, o.idem_key, o.derived_key
  FROM unnest(%(derived)s::text[]) AS said(key) CROSS JOIN LATERAL (
       SELECT id, idem_key, derived_key FROM operations_operation
        WHERE environment = %(environment)s AND namespace = %(namespace)s
          AND derived_key = said.key LIMIT 1) AS o"""
_LOCK: Final = f"""
SELECT {rows.COLUMNS} FROM operations_operation o JOIN operations_run r ON r.id = o.run_id
 WHERE o.id = ANY(%s::uuid[]) ORDER BY o.id FOR NO KEY UPDATE OF o"""  # noqa: S608
#: Operations that a run leaves open when it ends.
_OPEN: Final = """
SELECT o.id FROM operations_operation o JOIN operations_standing s ON s.operation_id = o.id
 WHERE o.run_id = ANY(%s::uuid[]) AND s.state <> 'FAILED' AND NOT o.closed"""


def calls_of(
    cur: Any,
    batch: Sequence[Reported],
    runs: Mapping[str, RunRow],
    runtime: Runtime,
    catalogue: Catalogue,
) -> list[Call]:
    """The locked operation of every record that is about one, and of every run that ends now."""
    about = [record for record in batch if record.is_about_operation]
    made: dict[UUID, Call] = {}
    for _ in range(3):
        known = _Known(_find(cur, runtime.scope, about))
        wanted = known.complete(about)
        born = births.make(cur, wanted, runs, runtime, catalogue) if wanted else {}
        made |= born
        if len(born) == len(wanted):
            break
    else:
        raise StateConflict("operations of this batch are being made by somebody else")
    ids = {known.id_of(record) for record in about} | _left_open(cur, runs)
    calls = made | _old_calls(cur, ids, made, runs)
    for record in about:
        calls[known.id_of(record)].reported.append(record)
    return [calls[op_id] for op_id in sorted(calls)]


class _Known:
    """Operations by their keys. A record's key counts first, then its (run, step, call)."""

    def __init__(self, found: Iterable[tuple[UUID, str, str]]) -> None:
        self._by_key: dict[str, UUID] = {}
        self._by_call: dict[str, UUID] = {}
        for op_id, idem_key, derived_key in found:
            self._add(op_id, idem_key, derived_key)

    def _add(self, op_id: UUID, idem_key: str, derived_key: str) -> None:
        self._by_key[idem_key] = op_id
        self._by_call[derived_key] = op_id

    def find(self, record: Reported) -> UUID | None:
        found = self._by_key.get(record.idem_key or "")
        return found or self._by_call.get(record.derived_key or "")

    def id_of(self, record: Reported) -> UUID:
        found = self.find(record)
        assert found is not None  # noqa: S101 -- `complete` has seen to it
        return found

    def complete(self, about: Iterable[Reported]) -> dict[UUID, list[Reported]]:
        """Give an id to every call that has no row, and say which records tell of it."""
        wanted: dict[UUID, list[Reported]] = {}
        for record in about:
            op_id = self.find(record)
            if op_id is None:
                op_id = uuid7()
                self._add(op_id, record.idem_key or "", record.derived_key or "")
                wanted[op_id] = []
            if op_id in wanted:
                wanted[op_id].append(record)
        return wanted


def _find(cur: Any, scope: Scope, about: Sequence[Reported]) -> list[tuple[UUID, str, str]]:
    if not about:
        return []
    params = {
        "environment": scope.environment,
        "namespace": scope.namespace,
        "keys": arrays.texts({record.idem_key for record in about}),
        "derived": arrays.texts({record.derived_key for record in about}),
    }
    cur.execute(_FIND, params)
    return list(cur.fetchall())


def _left_open(cur: Any, runs: Mapping[str, RunRow]) -> set[UUID]:
    ending = [run.pk for run in runs.values() if run.ends_now]
    if not ending:
        return set()
    cur.execute(_OPEN, (arrays.plain(ending),))
    return {row[0] for row in cur.fetchall()}


def _old_calls(
    cur: Any, ids: set[UUID], made: Mapping[UUID, Call], runs: Mapping[str, RunRow]
) -> dict[UUID, Call]:
    old = sorted(ids - made.keys())
    if not old:
        return {}
    cur.execute(_LOCK, (arrays.plain(old),))
    by_pk = {run.pk: run for run in runs.values()}
    ops = [rows.from_tuple(row) for row in cur.fetchall()]
    return {op.id: Call(op, by_pk.get(op.run_pk)) for op in ops}
