"""What others read of the log: checkpoints, entries, proofs. Nothing here writes."""

import base64
from typing import Any, Final

from operations.actors import Scope
from operations.ledger import checkpoints, entries, merkle, tree
from operations.ledger.tree import LogRow

LARGEST_PAGE: Final = 1000


class OutOfLog(Exception):
    """An index or a size that the log does not have (yet); the message says what it has."""


def checkpoint(cur: Any) -> str | None:
    """The newest signed note; None before the first."""
    found = checkpoints.latest(cur)
    return found[1].note if found else None


def page(cur: Any, scope: Scope, begin: int, end: int) -> list[dict[str, Any]]:
    """Entries [begin, end), as far as they are published.

    `entry` is the exact text that was hashed. What belongs to another namespace or environment is
    a leaf hash and nothing else: enough to verify, too little to read.
    """
    log, size = _published(cur)
    end = min(end, size, begin + LARGEST_PAGE)
    if begin >= end:
        return []
    prev = tree.leaf_at(cur, log.id, begin - 1) if begin else b""
    cur.execute(entries.READ, (begin, end - begin))
    found: list[dict[str, Any]] = []
    for entry in tree.remade(cur.fetchall(), log, prev, begin):
        if not isinstance(entry, entries.Entry):
            raise OutOfLog(f"Entry {begin + len(found)} cannot be read: {entry}")
        mine = (entry.environment, entry.namespace) == tuple(scope)
        found.append(
            {
                "index": entry.seq - 1,
                "leaf_hash": _b64(entry.leaf),
                "entry": entry.raw.decode() if mine else None,
            }
        )
    return found


def inclusion(cur: Any, index: int, size: int | None) -> dict[str, Any]:
    """The proof that an entry is in the log at a size (the newest published one by default)."""
    log, published = _published(cur)
    wanted = published if size is None else size
    if wanted > published or not 0 <= index < wanted:
        raise OutOfLog(f"The published log has {published} entries.")
    node = tree.nodes(cur, log.id)
    return {
        "origin": log.origin,
        "index": index,
        "size": wanted,
        "leaf_hash": _b64(node(0, index)),
        "root": _b64(merkle.span_hash((0, wanted), node)),
        "proof": [_b64(one) for one in merkle.inclusion_proof(index, wanted, node)],
    }


def consistency(cur: Any, begin: int, end: int | None) -> dict[str, Any]:
    """The proof that the log at one size continues the log at an earlier one."""
    log, published = _published(cur)
    wanted = published if end is None else end
    if wanted > published or not 0 < begin <= wanted:
        raise OutOfLog(f"The published log has {published} entries.")
    node = tree.nodes(cur, log.id)
    return {
        "origin": log.origin,
        "from": begin,
        "to": wanted,
        "from_root": _b64(merkle.span_hash((0, begin), node)),
        "to_root": _b64(merkle.span_hash((0, wanted), node)),
        "proof": [_b64(one) for one in merkle.consistency_proof(begin, wanted, node)],
    }


def _published(cur: Any) -> tuple[LogRow, int]:
    """The current log, and how much of it anybody may see."""
    log = tree.current(cur)
    found = checkpoints.newest(cur, log.id) if log else None
    if log is None or found is None:
        raise OutOfLog("Nothing has been published yet.")
    return log, found.size


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
