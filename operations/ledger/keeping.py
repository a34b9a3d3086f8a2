"""The newest checkpoint, kept outside the database too: what a restored backup cannot rewrite.

A file in a folder that only the product's account reads. It is written after its checkpoint is
committed, so the database is never behind it unless its tail was lost.
"""

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from operations.ledger import notes, tree
from operations.ledger.breaks import Break
from operations.ledger.notes import Checkpoint, NoteRefused


def path() -> Path:
    """Where it is kept."""
    return Path(settings.LEDGER_CHECKPOINT_FILE)


def read() -> str | None:
    """The kept note; None where none was kept yet."""
    try:
        return path().read_text()
    except FileNotFoundError:
        return None


def write(note: str) -> None:
    """Keep a note, whole or not at all, on the disk before this returns."""
    target = path()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(note)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(target)


def retire() -> Path | None:
    """Set the kept note aside for a new origin; where it lies now."""
    target = path()
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    aside = target.with_name(f"{target.name}.{moment}")
    try:
        return target.rename(aside)
    except FileNotFoundError:
        return None


def misfit(cur: Any) -> Break | None:
    """What is wrong where the kept checkpoint is not a prefix of the log; None where it is."""
    note = read()
    if note is None:
        return None
    try:
        kept = notes.unverified_checkpoint(note)
    except NoteRefused as error:
        return Break("restored", f"The kept checkpoint in {path().name} cannot be read: {error}.")
    log = tree.current(cur)
    if log is None or log.origin != kept.origin:
        held = log.origin if log else "none"
        return Break(
            "restored",
            f"The kept checkpoint is of the log {kept.origin}, the database holds {held}.",
        )
    return _compare(cur, log, kept)


def _compare(cur: Any, log: tree.LogRow, kept: Checkpoint) -> Break | None:
    if kept.size > log.size:
        return Break(
            "restored",
            f"The kept checkpoint has {kept.size} entries, the log only {log.size}: a backup was "
            "restored, or the log's tail was cut off.",
        )
    cur.execute(
        "SELECT root FROM operations_checkpoint WHERE log_id = %s AND size = %s",
        (log.id, kept.size),
    )
    row = cur.fetchone()
    try:
        root = bytes(row[0]) if row else tree.root_at(cur, log.id, kept.size)
    except tree.TreeDamaged as error:
        return Break("restored", f"The log cannot show its first {kept.size} entries: {error}.")
    if root != kept.root:
        return Break(
            "restored", f"The log's first {kept.size} entries are not those that were published."
        )
    return None
