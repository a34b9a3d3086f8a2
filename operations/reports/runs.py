"""The runs that a batch of records names: made, described, ended, and held for the transaction.

Rows are taken in the order of their names, before any operation's row (`operations.rows`). They are
held FOR SHARE, so that a run cannot end while operations are being added to it; a batch that
changes one of its runs takes them all FOR NO KEY UPDATE, because two batches that share a row and
then both want to change it would wait for each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final
from uuid import UUID

from operations import arrays
from operations.actors import Runtime, Scope
from operations.ids import uuid7
from operations.reports.reported import Reported, RunSaid
from operations.runs import VERSIONS

RUNNING: Final = "running"
_SAID: Final = tuple(item.name for item in fields(RunSaid) if item.name != "id")
_READ: Final = """
SELECT id, run_id, agent, agent_version, prompt_version, code_version, status
FROM operations_run WHERE environment = %s AND namespace = %s AND run_id = ANY(%s::text[])
ORDER BY run_id"""
_MAKE: Final = """
INSERT INTO operations_run
    (id, environment, namespace, run_id, agent, agent_version, prompt_version, code_version,
     trigger, budget_max_steps, budget_max_spend_minor, budget_currency, status, runtime,
     finished_at)
SELECT id, %s, %s, run_id, coalesce(agent, ''), agent_version, prompt_version, code_version,
       trigger, max_steps, max_spend, currency, coalesce(ending, 'running'), %s,
       CASE WHEN ending IS NOT NULL THEN clock_timestamp() END
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
            %s::int[], %s::bigint[], %s::text[], %s::text[])
    AS said(id, run_id, agent, agent_version, prompt_version, code_version, trigger, max_steps,
            max_spend, currency, ending)
ORDER BY run_id
ON CONFLICT DO NOTHING
RETURNING run_id"""
_DESCRIBE: Final = """
UPDATE operations_run r
   SET agent = CASE WHEN r.agent = '' THEN coalesce(said.agent, '') ELSE r.agent END,
       agent_version = coalesce(r.agent_version, said.agent_version),
       prompt_version = coalesce(r.prompt_version, said.prompt_version),
       code_version = coalesce(r.code_version, said.code_version),
       finished_at = CASE WHEN r.status = 'running' AND said.ending IS NOT NULL
                          THEN clock_timestamp() ELSE r.finished_at END,
       status = CASE WHEN r.status = 'abandoned' OR said.ending IS NULL OR r.status = 'failed'
                     THEN r.status ELSE said.ending END
  FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
       AS said(id, agent, agent_version, prompt_version, code_version, ending)
 WHERE r.id = said.id
RETURNING r.id, r.run_id, r.agent, r.agent_version, r.prompt_version, r.code_version, r.status"""


@dataclass(slots=True)
class RunRow:
    """One run as this batch leaves it."""

    pk: UUID
    run_id: str
    agent: str
    agent_version: str | None
    prompt_version: str | None
    code_version: str | None
    status: str
    is_new: bool = False
    #: This batch ended it: its other operations are closed as well.
    ends_now: bool = False

    @property
    def has_ended(self) -> bool:
        return self.status != RUNNING

    def differs_from(self, said: RunSaid) -> bool:
        """Whether a record names another agent or version than the run started with."""
        return any(
            value is not None and getattr(self, name) not in (None, "", value)
            for name in VERSIONS
            if (value := getattr(said, name)) is not None
        )


def runs_of(cur: Any, batch: Iterable[Reported], runtime: Runtime) -> dict[str, RunRow]:
    """Every run that the batch names, by the runtime's name for it."""
    said: dict[str, RunSaid] = {}
    endings: dict[str, str] = {}
    for record in batch:
        if record.run is None:
            continue
        said[record.run.id] = _merged(said.get(record.run.id), record.run)
        if record.type == "RUN_FINISHED" and endings.get(record.run.id) != "failed":
            endings[record.run.id] = "finished" if record.error is None else "failed"
    if not said:
        return {}
    names = arrays.texts(sorted(said))
    known = _read(cur, runtime.scope, names)
    made = _make(cur, said, endings, known, runtime)
    if len(known) + len(made) < len(said):
        known = _read(cur, runtime.scope, names)  # somebody was quicker with one of them
    found = {name: replace(row, is_new=name in made) for name, row in known.items()}
    if made:
        found |= {n: replace(r, is_new=True) for n, r in _read_made(cur, runtime, made).items()}
    return _held(cur, found, said, endings, runtime.scope)


def _merged(before: RunSaid | None, said: RunSaid) -> RunSaid:
    if before is None or before == said:
        return said
    first = {name: value for name in _SAID if (value := getattr(before, name)) is not None}
    return replace(said, **first)


def _read(cur: Any, scope: Scope, names: str, lock: str = "") -> dict[str, RunRow]:
    cur.execute(_READ + lock, (*scope, names))
    return {row[1]: RunRow(*row) for row in cur.fetchall()}


def _read_made(cur: Any, runtime: Runtime, made: Iterable[str]) -> dict[str, RunRow]:
    return _read(cur, runtime.scope, arrays.texts(made))


def _make(
    cur: Any,
    said: Mapping[str, RunSaid],
    endings: Mapping[str, str],
    known: Mapping[str, RunRow],
    runtime: Runtime,
) -> set[str]:
    missing = [said[name] for name in sorted(said.keys() - known.keys())]
    made = _insert(cur, missing, endings, runtime) if missing else set()
    if len(made) < len(missing):
        # A trigger that belongs to another run, or a run that somebody made meanwhile.
        rest = [replace(run, trigger=None) for run in missing if run.id not in made]
        made |= _insert(cur, rest, endings, runtime)
    return made


def _insert(
    cur: Any, said: Sequence[RunSaid], endings: Mapping[str, str], runtime: Runtime
) -> set[str]:
    texts = ("id", *VERSIONS, "trigger")
    cur.execute(
        _MAKE,
        (
            *runtime.scope,
            runtime.key_id,
            arrays.plain(uuid7() for _ in said),
            *(arrays.texts(getattr(run, name) for run in said) for name in texts),
            arrays.plain(run.budget_max_steps for run in said),
            arrays.plain(run.budget_max_spend_minor for run in said),
            arrays.texts(run.budget_currency for run in said),
            arrays.texts(endings.get(run.id) for run in said),
        ),
    )
    return {row[0] for row in cur.fetchall()}


def _held(
    cur: Any,
    found: dict[str, RunRow],
    said: Mapping[str, RunSaid],
    endings: Mapping[str, str],
    scope: Scope,
) -> dict[str, RunRow]:
    old = [name for name, row in found.items() if not row.is_new]
    changing = [name for name in old if _changes(found[name], said[name], endings.get(name))]
    if old:
        lock = " FOR NO KEY UPDATE" if changing else " FOR SHARE"
        found |= _read(cur, scope, arrays.texts(sorted(old)), lock)
    if changing:
        found |= _described(cur, [found[name] for name in changing], said, endings)
    return found


def _changes(row: RunRow, said: RunSaid, ending: str | None) -> bool:
    ends = ending is not None and row.status not in (ending, "failed", "abandoned")
    return ends or any(getattr(said, name) and not getattr(row, name) for name in VERSIONS)


def _described(
    cur: Any, rows: Sequence[RunRow], said: Mapping[str, RunSaid], endings: Mapping[str, str]
) -> dict[str, RunRow]:
    cur.execute(
        _DESCRIBE,
        (
            arrays.plain(row.pk for row in rows),
            *(arrays.texts(getattr(said[row.run_id], name) for row in rows) for name in VERSIONS),
            arrays.texts(endings.get(row.run_id) for row in rows),
        ),
    )
    was_running = {row.pk for row in rows if not row.has_ended}
    changed = [RunRow(*row) for row in cur.fetchall()]
    return {
        row.run_id: replace(row, ends_now=row.has_ended and row.pk in was_running)
        for row in changed
    }
