"""An admin signs that the ledger is broken, and a new log begins under a new origin.

Nothing is repaired and nothing forgotten: the new log's first entries are the events as they stand
now, and the last tells what was wrong, which log it was, its last kept checkpoint, who signed and
why. Grants that were not consumed die with the old log.
"""

import base64
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from django.db import connection, transaction

from approvals import audit, epochs, keys, permissions, sshsig
from approvals.errors import Refused
from approvals.models import ReviewerKey, User
from approvals.refusals import SignatureRefused
from operations import canonical
from operations.ledger import breaks, checking, keeping, sequencer, tree

BREAK_TYPE: Final = "urn:countersign:log-break:v1"
SHORTEST_REASON: Final = 10
#: A list that long is no list of known damage any more.
MOST_FORGIVEN: Final = 1000


@dataclass(frozen=True)
class Statement:
    """What the admin signs: `message` is its canonical JSON."""

    document: dict[str, Any]

    @property
    def message(self) -> bytes:
        return canonical.canonicalize(self.document)


def prepare(admin: User, reason: str) -> Statement:
    """The statement of this break; raises Refused where the person or the reason will not do."""
    if not admin.is_active or admin.role != "admin":
        raise Refused("FORBIDDEN", f"{admin.email} is no admin.")
    if len(reason.strip()) < SHORTEST_REASON:
        raise Refused("VALIDATION_ERROR", "Say in a sentence what happened.")
    with connection.cursor() as cur:
        log = tree.current(cur)
        found = breaks.marked(cur) or keeping.misfit(cur)
    if log is None:
        raise Refused("VALIDATION_ERROR", "There is no log yet: nothing can be broken.")
    kept = keeping.read()
    return Statement(
        {
            "type": BREAK_TYPE,
            "admin": f"user:{admin.id}",
            "reason": reason.strip(),
            "origin": log.origin,
            "size": log.size,
            "kept": kept,
            "kept_sha256": sha256((kept or "").encode()).hexdigest(),
            "break": {"kind": found.kind, "sentence": found.sentence} if found else None,
            "differences": _differences(),
        }
    )


def _differences() -> list[str]:
    found = sorted({one.where for one in checking.differences(MOST_FORGIVEN)})
    if len(found) > MOST_FORGIVEN:
        raise Refused("VALIDATION_ERROR", "Too much differs to be signed for: restore a backup.")
    return found


def start_new_log(admin: User, statement: Statement, armor: str | None) -> str:
    """Begin the new log; its origin. `armor`: the admin's SSH signature over the message, checked
    against the keys that are enrolled; without one the shell's authority is recorded as such.
    """
    key_id = _signer_of(admin, statement.message, armor) if armor else None
    with transaction.atomic(), connection.cursor() as cur:
        sequencer.take(cur)
        log = tree.begin(cur, forgiven=statement.document["differences"])
        data = {
            "statement": statement.document,
            "key_id": key_id,
            "sshsig": base64.b64encode(sshsig.dearmor(armor)).decode() if armor else None,
            "new_origin": log.origin,
        }
        audit.note(cur, "ledger.broken", actor=f"user:{admin.id}", data=data)
        epochs.raise_epoch(cur, "a new log began", actor=f"user:{admin.id}")
    keeping.retire()
    return log.origin


def _signer_of(admin: User, message: bytes, armor: str) -> str:
    for key in ReviewerKey.objects.filter(user=admin, revoked_at=None, method__startswith="ssh"):
        permissions.check_key(admin, key, "A1")
        try:
            trusted = keys.parse_line(key.ssh_public_key)
            sshsig.verify(armor, message, trusted, is_passkey=False)
        except SignatureRefused:
            continue
        return key.key_id
    raise Refused("SIGNATURE_REFUSED", "No enrolled SSH key of this admin has made the signature.")
