"""The running check: piece by piece, for ever, does every row still say what was sealed?

Each piece makes some hundred entries again from their rows, compares their hashes with the stored
ones and their operations with what the events say. Two seconds apart, a log of up to 40,000
entries is seen whole within a minute; of a longer one the newest entries are, the rest in turn.
"""

from typing import Any, Final

from django.db import connection, transaction

from operations.ledger import breaks, checking, keeping, sequencer, tree, tree_checking
from operations.ledger.breaks import Break
from operations.ledger.differences import Difference

_PIECE: Final = 1600


def run_once(piece: int = _PIECE) -> Break | None:
    """Check one piece and remember where it ended; the break where one was found now.

    Rolls back nothing and repairs nothing: it marks the log, which stops checkpoints and grants.
    """
    with transaction.atomic(), connection.cursor() as cur:
        if not sequencer.is_mine(cur):
            return None
        log = tree.current(cur)
        if log is None or log.is_broken:
            return None
        found = keeping.misfit(cur) or _piece(cur, log, piece)
        if found is None or not breaks.mark(cur, log.id, found.kind, found.sentence):
            return None
        return found


def _piece(cur: Any, log: tree.LogRow, piece: int) -> Break | None:
    cur.execute("SELECT checked_to FROM operations_ledgerlog WHERE id = %s", (log.id,))
    begin: int = cur.fetchone()[0]
    newest = max(0, log.size - piece // 4)
    try:
        reached = _look(cur, log, min(begin, log.size), piece)
        if reached < newest:
            _look(cur, log, newest, piece // 4)
    except _Misfit as misfit:
        return Break("rows", str(misfit.difference))
    except tree.TreeDamaged as error:
        return Break("tree", f"The tree is damaged: {error}.")
    ended = reached >= log.size
    cur.execute(
        "UPDATE operations_ledgerlog SET checked_to = %s,"
        " checked_at = CASE WHEN %s THEN clock_timestamp() ELSE checked_at END WHERE id = %s",
        (0 if ended else reached, ended, log.id),
    )
    return None


def _look(cur: Any, log: tree.LogRow, begin: int, piece: int) -> int:
    """Check entries after `begin`; how far that came."""
    seen: set[Any] = set()
    reached = begin
    for entry in tree_checking.entries_after(cur, log, begin, min(piece, log.size - begin)):
        if isinstance(entry, Difference):
            raise _Misfit(entry)
        reached = entry.seq
        if entry.operation_id is not None:
            seen.add(entry.operation_id)
    for difference in checking.row_differences(cur, len(log.forgiven) + 1, sorted(seen)):
        if difference.where not in log.forgiven:
            raise _Misfit(difference)
    return reached


class _Misfit(Exception):
    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.where)
        self.difference = difference
