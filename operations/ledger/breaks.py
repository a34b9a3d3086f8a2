"""A break: what does not fit about the ledger, written on the log's row.

It ends only when an admin signs it and a new origin starts (`manage.py start_new_log`).
"""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Break:
    """What does not fit. `kind`: `restored` (the kept checkpoint is not in the log), `rows` (an
    event or a row was changed), `tree` (stored hashes were changed).
    """

    kind: str
    sentence: str
    found_at: str = ""

    @property
    def stops_claims(self) -> bool:
        """Whether even calls that need no approval wait: after a restore they may be repeats."""
        return self.kind == "restored"


def mark(cur: Any, log_id: int, kind: str, sentence: str) -> bool:
    """Write a break down, once: the first that was found stays. Whether this was the first."""
    cur.execute(
        """
        UPDATE operations_ledgerlog
           SET broken = jsonb_build_object('kind', %s::text, 'sentence', %s::text, 'found_at',
                   to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
         WHERE id = %s AND broken IS NULL
        """,
        (kind, sentence, log_id),
    )
    return bool(cur.rowcount)


def marked(cur: Any) -> Break | None:
    """The break that is written down for the current log."""
    cur.execute("SELECT broken::text FROM operations_ledgerlog ORDER BY id DESC LIMIT 1")
    row = cur.fetchone()
    if row is None or row[0] is None:
        return None
    said = json.loads(row[0])
    return Break(said["kind"], said["sentence"], said["found_at"])
