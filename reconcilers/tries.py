"""The attempts of some operations, read set by set, and what those of each say together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from reconcilers.replays import Try

_ATTEMPTS: Final = """
SELECT operation_id, number, standing, fenced, permit_at, granted_at, ended_at, emits_until,
       provider_ref, http_status, error_replayed, origin
  FROM operations_attempt WHERE operation_id = ANY(%s) ORDER BY operation_id, number
"""


@dataclass(frozen=True)
class Tries:
    """What the attempts of one operation say together. `emits_until` is t_emit."""

    emits_until: datetime | None = None
    fenced: bool = False
    possible_sends: int = 0
    refs: frozenset[str] = frozenset()
    http_statuses: tuple[int, ...] = ()
    hearsay: bool = False
    each: tuple[Try, ...] = ()


NONE: Final = Tries()


def load(cur: Any, operation_ids: Sequence[UUID]) -> dict[UUID, Tries]:
    """The attempts of these operations; those without any are left out."""
    cur.execute(_ATTEMPTS, (list(operation_ids),))
    rows: dict[UUID, list[Any]] = {}
    for operation_id, *values in cur.fetchall():
        rows.setdefault(operation_id, []).append(values)
    return {operation_id: _together(those) for operation_id, those in rows.items()}


def _together(rows: Sequence[Any]) -> Tries:
    emits: list[datetime] = []
    sends, fenced, unknown_end, hearsay = 0, True, False, False
    refs: set[str] = set()
    statuses: list[int] = []
    each: list[Try] = []
    for (
        number, standing, is_fenced, permit_at, granted_at, ended_at, emits_until, ref, status,
        replayed, origin,
    ) in rows:  # fmt: skip
        if ref:
            refs.add(ref)
        if standing in {"live", "in_doubt"}:
            if emits_until is not None:
                emits.append(emits_until)
            elif standing == "in_doubt":
                unknown_end = True
            if status is not None:
                statuses.append(status)
            fenced = fenced and is_fenced
            hearsay = hearsay or origin == "hearsay"
        may_have_sent = standing != "not_sent" and (permit_at is not None or not is_fenced)
        sends += may_have_sent
        each.append(
            Try(
                number=number,
                standing=standing,
                sent_at=(permit_at or granted_at) if may_have_sent else None,
                ended_at=ended_at,
                could_send_until=emits_until,
                http_status=status,
                replayed=replayed,
                provider_ref=ref,
            )
        )
    end = None if unknown_end else max(emits, default=None)
    return Tries(end, fenced, sends, frozenset(refs), tuple(statuses), hearsay, tuple(each))
