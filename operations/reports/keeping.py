"""Keeping records, whatever they say: each once, none overwritten, duplicates told apart."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from operations import arrays, canonical
from operations.actors import Runtime, Scope
from operations.canonical import InvalidJson
from operations.reports.births import Call
from operations.reports.reported import ACCEPTED, DUPLICATE, INCIDENT, Reported

REUSED: Final = "RECORD_ID_REUSED"
_KEEP: Final = """
INSERT INTO operations_record
    (environment, namespace, runtime, record_id, status, code, pointer, type, operation_id,
     idem_key, attempt_id, effect, permanent, replayed, provider_ref, result_sha256,
     args_fingerprint, tool, occurred_at, body, sha256)
SELECT %s, %s, %s, said.*
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::uuid[], %s::text[],
            %s::text[], %s::text[], %s::bool[], %s::bool[], %s::text[], %s::bytea[], %s::text[],
            %s::text[], %s::timestamptz[], %s::bytea[], %s::bytea[]) AS said(record_id)
ORDER BY said.record_id
ON CONFLICT (environment, namespace, record_id) DO NOTHING
RETURNING record_id"""
_KEPT_BEFORE: Final = """
SELECT record_id, sha256, body, idem_key FROM operations_record
 WHERE environment = %s AND namespace = %s AND record_id = ANY(%s::text[])"""


def mark_repeats(batch: Iterable[Reported]) -> None:
    """Find ids that the batch itself uses twice: the same content is a duplicate."""
    first: dict[str, Reported] = {}
    for record in batch:
        known = first.setdefault(record.record_id, record)
        if known is not record:
            if _is_same(record, known.body):
                _mark_duplicate(record)
            else:
                _mark_reused(record)


def mark_conflicts(calls: Iterable[Call]) -> None:
    """Say of records that contradict the call they name. They are evidence all the same."""
    for call in calls:
        op = call.op
        fingerprint = op.args_fingerprint
        for record in call.reported:
            if (record.idem_key, record.derived_key) != (op.idem_key, op.derived_key):
                _mark_conflict(record, "KEY_COLLISION", "/idem_key")
            elif record.tool != op.tool:
                _mark_conflict(record, "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS", "/tool")
            elif record.args_fingerprint is not None:
                fingerprint = fingerprint or record.args_fingerprint
                if record.args_fingerprint != fingerprint:
                    _mark_conflict(record, "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS", "/args")


def keep(cur: Any, batch: Sequence[Reported], calls: Sequence[Call], runtime: Runtime) -> None:
    """Store every record that is new, and drop duplicates from their calls."""
    calls_by_record = {id(record): call for call in calls for record in call.reported}
    new = [record for record in batch if record.status != DUPLICATE]
    kept = _insert(cur, new, calls_by_record, runtime)
    known = [record for record in new if record.kept_as not in kept]
    if known:
        again = _told_apart(cur, known, runtime.scope)
        kept = _insert(cur, again, calls_by_record, runtime) if again else set()
        for record in again:
            if record.kept_as not in kept:  # this very content has its longer id already
                _mark_duplicate(record)
    for call in calls:
        call.reported = [record for record in call.reported if record.status != DUPLICATE]


def _told_apart(cur: Any, known: Sequence[Reported], scope: Scope) -> list[Reported]:
    """Mark what was kept before as duplicates; what is left reuses an id for other content."""
    cur.execute(_KEPT_BEFORE, (*scope, arrays.texts(record.kept_as for record in known)))
    before = {row[0]: row[1:] for row in cur.fetchall()}
    reused = []
    for record in known:
        digest, body, idem_key = before[record.kept_as]
        if bytes(digest) == record.sha256 or (body is not None and _is_same(record, bytes(body))):
            _mark_duplicate(record)
            record.idem_key = idem_key
        elif record.kept_as != record.record_id:
            _mark_duplicate(record)
        else:
            _mark_reused(record)
            reused.append(record)
    return reused


def _mark_reused(record: Reported) -> None:
    record.status, record.code, record.pointer = INCIDENT, REUSED, "/record_id"
    record.kept_as = f"{record.record_id}#{record.sha256.hex()}"


def _mark_duplicate(record: Reported) -> None:
    record.status, record.code, record.pointer = DUPLICATE, None, None


def _mark_conflict(record: Reported, code: str, pointer: str) -> None:
    record.conflict = code
    if record.status == ACCEPTED:
        record.status, record.code, record.pointer = INCIDENT, code, pointer


def _is_same(record: Reported, body: bytes) -> bool:
    """Whether two texts are one content: the same bytes, or the same canonical JSON."""
    if record.body == body:
        return True
    try:
        one, other = (canonical.parse_strict(text) for text in (record.body, body))
    except InvalidJson:
        return False
    return canonical.canonicalize(one) == canonical.canonicalize(other)


def _insert(
    cur: Any, records: Sequence[Reported], calls: dict[int, Call], runtime: Runtime
) -> set[str]:
    ops = [call.op if (call := calls.get(id(record))) else None for record in records]
    for record, op in zip(records, ops, strict=True):
        record.idem_key = op.idem_key if op is not None else None
    cur.execute(
        _KEEP,
        (
            *runtime.scope,
            runtime.key_id,
            arrays.texts(record.kept_as for record in records),
            arrays.texts(record.status for record in records),
            arrays.texts(record.code for record in records),
            arrays.texts(_storable(record.pointer) for record in records),
            arrays.texts(record.type for record in records),
            arrays.plain(op.id if op is not None else None for op in ops),
            arrays.texts(record.idem_key for record in records),
            arrays.texts(record.attempt_id for record in records),
            arrays.texts(record.effect for record in records),
            arrays.plain(record.permanent for record in records),
            arrays.plain(record.replayed for record in records),
            arrays.texts(record.provider_ref for record in records),
            arrays.binaries(record.result_sha256 for record in records),
            arrays.texts(record.args_fingerprint for record in records),
            arrays.texts(record.tool for record in records),
            arrays.moments(record.occurred_at for record in records),
            arrays.binaries(record.body for record in records),
            arrays.binaries(record.sha256 for record in records),
        ),
    )
    return {row[0] for row in cur.fetchall()}


def _storable(pointer: str | None) -> str | None:
    """A text column holds no NUL; a pointer to a name with one is spelled as JSON spells it."""
    return None if pointer is None else pointer.replace("\0", "\\u0000")
