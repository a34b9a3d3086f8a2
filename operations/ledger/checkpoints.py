"""Signs and publishes checkpoints: at once after a decision, each minute where the log grew.

Only the sequencer calls `publish`; it alone holds a key. Before it signs, what is stored must
still hold: the log must continue its last checkpoint and the one that is kept outside.
"""

from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction

from operations.ledger import breaks, keeping, notes, sequencer, tree
from operations.ledger.notes import Checkpoint, Signer

EVERY_SECONDS: Final = 60.0

_NEWEST: Final = """
SELECT c.size, c.root, c.note, extract(epoch FROM clock_timestamp() - c.published_at)::float8
  FROM operations_checkpoint c
 WHERE c.log_id = %s ORDER BY c.size DESC LIMIT 1
"""
_WRITE: Final = """
INSERT INTO operations_checkpoint (log_id, size, root, note, vkey) VALUES (%s, %s, %s, %s, %s)
"""


@dataclass(frozen=True, slots=True)
class Published:
    """A checkpoint that anybody may have seen. `age_seconds` by the database's clock."""

    size: int
    root: bytes
    note: str
    age_seconds: float


def newest(cur: Any, log_id: int) -> Published | None:
    """The newest checkpoint of a log."""
    cur.execute(_NEWEST, (log_id,))
    row = cur.fetchone()
    return Published(row[0], bytes(row[1]), row[2], row[3]) if row else None


def latest(cur: Any) -> tuple[str, Published] | None:
    """The current log's origin and its newest checkpoint; None before the first."""
    log = tree.current(cur)
    found = newest(cur, log.id) if log else None
    return (log.origin, found) if log and found else None


def vkeys(cur: Any) -> tuple[str, list[str]] | None:
    """The current origin and every verifier key that has signed for it, the newest first."""
    log = tree.current(cur)
    if log is None:
        return None
    cur.execute(
        "SELECT vkey FROM operations_checkpoint WHERE log_id = %s GROUP BY vkey"
        " ORDER BY max(size) DESC",
        (log.id,),
    )
    return log.origin, [row[0] for row in cur.fetchall()]


def publish(signer: Signer) -> int | None:
    """Sign and publish the log as it stands, where that is due; the size, or None.

    A log that does not continue what was published is marked as broken instead, and never signed.
    """
    with transaction.atomic(), connection.cursor() as cur:
        if not sequencer.is_mine(cur):
            return None
        log = tree.current(cur)
        if log is None or log.is_broken or not log.size:
            return None
        before = newest(cur, log.id)
        if not _is_due(log, before):
            return None
        problem = keeping.misfit(cur) or _damage(cur, log, before)
        if problem is not None:
            breaks.mark(cur, log.id, problem.kind, problem.sentence)
            return None
        checkpoint = Checkpoint(log.origin, log.size, log.range.root)
        note = notes.sign(checkpoint.text, log.origin, signer)
        vkey = notes.verifier_key(log.origin, signer.public_key).text
        cur.execute(_WRITE, (log.id, log.size, checkpoint.root, note, vkey))
    keeping.write(note)
    return log.size


def _is_due(log: tree.LogRow, before: Published | None) -> bool:
    if before is None:
        return True
    if log.size == before.size:
        return False
    return log.urgent_size > before.size or before.age_seconds >= EVERY_SECONDS


def _damage(cur: Any, log: tree.LogRow, before: Published | None) -> breaks.Break | None:
    try:
        if tree.root_at(cur, log.id, log.size) != log.range.root:
            return breaks.Break("tree", "The stored hashes do not give the log's own root.")
        if before and tree.root_at(cur, log.id, before.size) != before.root:
            return breaks.Break(
                "tree", f"The log no longer continues its checkpoint of {before.size}."
            )
    except tree.TreeDamaged as error:
        return breaks.Break("tree", f"The tree is damaged: {error}.")
    return None
