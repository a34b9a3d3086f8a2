"""The Merkle tree in the database: appended to by the sequencer, read for proofs.

Kept are leaf hashes and the roots over each 256 of them, each 65,536 and so on, so that appending
writes one row an entry and a proof reads a few rows a level however long the log is.
"""

import secrets
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings

from operations.ledger import breaks, entries, merkle
from operations.ledger.differences import Difference
from operations.ledger.entries import Entry
from operations.ledger.merkle import HASH_BYTES, CompactRange

#: Levels of the tree between two that are kept.
STEP: Final = 8
_MOST: Final = 4000
_COLUMNS: Final = """id, origin, size, peaks, last_leaf, urgent_size, broken IS NOT NULL,
    ARRAY(SELECT jsonb_array_elements_text(forgiven))"""
_CURRENT: Final = f"SELECT {_COLUMNS} FROM operations_ledgerlog ORDER BY id DESC LIMIT 1"  # noqa: S608
_GROW: Final = """
UPDATE operations_ledgerlog SET size = %s, peaks = %s, last_leaf = %s, urgent_size = %s
 WHERE id = %s AND size = %s
"""
_NODES: Final = """
INSERT INTO operations_ledgernode (log_id, level, index, hash)
SELECT %s, * FROM unnest(%s::smallint[], %s::bigint[], %s::bytea[])
"""
_RANGE: Final = """
SELECT hash FROM operations_ledgernode
 WHERE log_id = %s AND level = %s AND index >= %s AND index < %s ORDER BY index
"""


class TreeDamaged(Exception):
    """Stored hashes are missing, or do not make the root that was signed; the message says what."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """The current log as it stands in this transaction."""

    id: int
    origin: str
    size: int
    peaks: bytes
    last_leaf: bytes
    urgent_size: int
    is_broken: bool
    forgiven: frozenset[str]

    @property
    def range(self) -> CompactRange:
        """Its compact range; TreeDamaged where the stored peaks do not fit the size."""
        cut = range(0, len(self.peaks), HASH_BYTES)
        try:
            return CompactRange(self.size, [self.peaks[at : at + HASH_BYTES] for at in cut])
        except ValueError as error:
            raise TreeDamaged(str(error)) from None


def current(cur: Any) -> LogRow | None:
    """The newest log, or None before the first."""
    cur.execute(_CURRENT)
    row = cur.fetchone()
    if row is None:
        return None
    log_id, origin, size, peaks, leaf, urgent, is_broken, forgiven = row
    known = frozenset(forgiven)
    return LogRow(log_id, origin, size, bytes(peaks), bytes(leaf), urgent, is_broken, known)


def begin(cur: Any, forgiven: Collection[str] = ()) -> LogRow:
    """Start a log under an origin that no other has; the sealed events so far become its first.

    `forgiven` are differences (their `where`) that somebody signed for.
    """
    origin = f"{settings.BASE_HOST}/ledger/{secrets.token_hex(4)}"
    cur.execute(
        "INSERT INTO operations_ledgerlog"
        " (origin, size, peaks, last_leaf, urgent_size, checked_to, forgiven)"
        " VALUES (%s, 0, '', '', 0, 0, to_jsonb(%s::text[]))",
        (origin, sorted(forgiven)),
    )
    found = current(cur)
    if found is None:
        raise TreeDamaged("the log that was begun is not there")
    return found


def grow(cur: Any, most: int = _MOST) -> int:
    """Append sealed events that are not in the tree yet, at most so many; how many that were.

    Under the sequencer's lock. A number or an event that is missing marks the log as broken.
    """
    log = current(cur) or begin(cur)
    if log.is_broken:
        return 0
    cur.execute(entries.READ, (log.size, most))
    rows = cur.fetchall()
    if not rows:
        return 0
    growing, leaf, urgent = log.range, log.last_leaf, log.urgent_size
    levels: list[int] = []
    indexes: list[int] = []
    hashes: list[bytes] = []

    def keep(level: int, index: int, found: bytes) -> None:
        if level % STEP == 0:
            levels.append(level)
            indexes.append(index)
            hashes.append(found)

    for entry in remade(rows, log, leaf):
        if isinstance(entry, Difference):
            breaks.mark(cur, log.id, "rows", str(entry))
            break
        leaf = entry.leaf
        growing.append(leaf, keep)
        if entry.is_urgent:
            urgent = entry.seq
    cur.execute(_NODES, (log.id, levels, indexes, hashes))
    peaks = b"".join(growing.peaks)
    cur.execute(_GROW, (growing.size, peaks, leaf, urgent, log.id, log.size))
    return growing.size - log.size


def remade(
    rows: Iterable[tuple[Any, ...]], log: LogRow, prev: bytes, begin: int | None = None
) -> Iterator[Entry | Difference]:
    """The entries of rows of `entries.READ` that follow `begin` (else the log's size), each naming
    the one before; ends with a Difference where one is gone and nobody has signed for it.
    """
    seq = log.size if begin is None else begin
    for row in rows:
        while seq + 1 < row[0] or (seq + 1 == row[0] and row[1] is None):
            gone = Difference(f"entry #{seq + 1}", "the event that was sealed", "no event")
            if gone.where not in log.forgiven:
                yield gone
                return
            seq += 1
            entry = entries.lost(seq, prev)
            prev = entry.leaf
            yield entry
        if row[0] == seq:
            continue
        seq += 1
        entry = entries.of_row(row, prev)
        prev = entry.leaf
        yield entry


def nodes(cur: Any, log_id: int) -> merkle.Node:
    """Complete subtrees of a log, from what is kept; each answer reads at most 128 rows."""

    def node(level: int, index: int) -> bytes:
        base = level - level % STEP
        count = 1 << (level - base)
        cur.execute(_RANGE, (log_id, base, index * count, (index + 1) * count))
        found = [bytes(row[0]) for row in cur.fetchall()]
        if len(found) != count:
            raise TreeDamaged(f"{count - len(found)} hashes of level {base} are missing")
        return merkle.root_of(found)

    return node


def root_at(cur: Any, log_id: int, size: int) -> bytes:
    """The root that the stored hashes give for an earlier size."""
    return merkle.span_hash((0, size), nodes(cur, log_id))


def leaf_at(cur: Any, log_id: int, index: int) -> bytes:
    """The stored hash of one leaf."""
    return nodes(cur, log_id)(0, index)
