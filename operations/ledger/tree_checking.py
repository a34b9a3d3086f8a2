"""Checks the Merkle tree: every entry made again from its row, every root, every checkpoint."""

from collections.abc import Iterator
from typing import Any, Final

from operations.ledger import breaks, entries, keeping, merkle, notes, tree
from operations.ledger.differences import Difference
from operations.ledger.entries import Entry

_AT_ONCE: Final = 2000
_LEAVES: Final = """
SELECT index, hash FROM operations_ledgernode
 WHERE log_id = %s AND level = 0 AND index >= %s AND index < %s ORDER BY index
"""
_UPPER: Final = """
SELECT level, index, hash FROM operations_ledgernode WHERE log_id = %s AND level > 0
"""
_CHECKPOINTS: Final = """
SELECT size, root, note, vkey FROM operations_checkpoint WHERE log_id = %s ORDER BY size
"""


def entries_after(
    cur: Any, log: tree.LogRow, begin: int, count: int
) -> Iterator[Entry | Difference]:
    """Entries made again from their rows, `count` of them; ends with a Difference where a row is
    gone, or its hash is not the stored one (which names the hash of the entry before it).
    """
    prev = tree.leaf_at(cur, log.id, begin - 1) if begin else b""
    while count > 0:
        end = begin + min(_AT_ONCE, count)
        cur.execute(_LEAVES, (log.id, begin, end))
        leaves = {row[0]: bytes(row[1]) for row in cur.fetchall()}
        cur.execute(entries.READ, (begin, end - begin))
        rows = [row for row in cur.fetchall() if row[0] <= end]
        reached = begin
        for entry in tree.remade(rows, log, prev, begin):
            if isinstance(entry, Difference):
                yield entry
                return
            reached, prev = entry.seq, leaves.get(entry.seq - 1, b"")
            if entry.leaf != prev:
                found = f"{entry.leaf.hex()} of {entry.type}"
                yield Difference(f"entry #{reached}", f"the hash {prev.hex()}", found)
                return
            yield entry
        if reached != end:
            yield Difference(f"entry #{reached + 1}", "the event that was sealed", "no event")
            return
        count -= end - begin
        begin = end


def differences(cur: Any, limit: int) -> Iterator[Difference]:
    """Whatever does not fit about the current log, the first entry that differs at most."""
    log = tree.current(cur)
    if log is None:
        return
    marked = breaks.marked(cur)
    if marked is not None:
        yield Difference(
            f"log {log.origin}", "whole", f"broken since {marked.found_at}: {marked.sentence}"
        )
    misfit = keeping.misfit(cur)
    if misfit is not None:
        yield Difference("kept checkpoint", "a prefix of the log", misfit.sentence.rstrip("."))
    growing = merkle.CompactRange()
    made: dict[tuple[int, int], bytes] = {}
    roots: dict[int, bytes] = {}
    wanted = _sizes(cur, log.id)

    def keep(level: int, index: int, found: bytes) -> None:
        if level and level % tree.STEP == 0:
            made[level, index] = found

    for entry in entries_after(cur, log, 0, log.size):
        if isinstance(entry, Difference):
            yield entry
            return
        growing.append(entry.leaf, keep)
        if growing.size in wanted:
            roots[growing.size] = growing.root
    yield from _upper(cur, log, growing, made)
    yield from _signed(cur, log, roots, limit)


def _sizes(cur: Any, log_id: int) -> set[int]:
    cur.execute("SELECT size FROM operations_checkpoint WHERE log_id = %s", (log_id,))
    return {row[0] for row in cur.fetchall()}


def _upper(
    cur: Any, log: tree.LogRow, growing: merkle.CompactRange, made: dict[tuple[int, int], bytes]
) -> Iterator[Difference]:
    cur.execute(_UPPER, (log.id,))
    stored = {(level, index): bytes(found) for level, index, found in cur.fetchall()}
    for place in sorted(made.keys() | stored.keys()):
        if made.get(place) != stored.get(place):
            yield Difference(
                f"hash {place[1]} of level {place[0]}", "that of its entries", "another"
            )
            return
    if b"".join(growing.peaks) != log.peaks:
        yield Difference(f"log {log.origin}", "the peaks of its entries", "other peaks")


def _signed(
    cur: Any, log: tree.LogRow, roots: dict[int, bytes], limit: int
) -> Iterator[Difference]:
    cur.execute(_CHECKPOINTS, (log.id,))
    found = 0
    for size, root, note, vkey in cur.fetchall():
        problem = _problem(log.origin, size, bytes(root), note, vkey, roots.get(size))
        if problem:
            yield Difference(f"checkpoint of {size}", "signed, over these entries", problem)
            found += 1
            if found == limit:
                return


def _problem(origin: str, size: int, root: bytes, note: str, vkey: str, made: bytes | None) -> str:
    try:
        signed = notes.open_checkpoint(note, [notes.parse_verifier_key(vkey)], origin)
    except notes.NoteRefused as error:
        return str(error)
    if (signed.size, signed.root) != (size, root):
        return "the row says another size or root than the note"
    return "" if root == made else "a root that these entries do not have"
