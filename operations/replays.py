"""One key answered from the store again and again: an agent that is stuck, or ids minted anew.

A server that mints call ids from a history which a client has cut gives new work an old id; the
answer is then a result of long ago, and nobody notices. The arguments are equal, so nothing is
refused; a person is told, once for each operation.
"""

from typing import Any

from django.conf import settings

from operations import incidents, rows
from operations.rows import LockedOperation


def alarm_if_too_many(cur: Any, op: LockedOperation, *, actor: str) -> None:
    """Open the incident with the replay that passes the limit (`REPLAY_ALARM`, 0: never).

    The caller has just counted, so that exactly one of many at once meets the limit.
    """
    if not settings.REPLAY_ALARM or op.replays != settings.REPLAY_ALARM + 1:
        return
    locked = rows.lock(cur, op_id=op.id)
    if locked is not None:
        incidents.open_incident(
            cur, "replayed_too_often", op=locked, cause=f"{op.id}", actor=actor,
            details={"replays": op.replays},
        )  # fmt: skip
