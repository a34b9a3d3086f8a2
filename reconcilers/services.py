"""What others may ask of the reconciler: look again now, pause an account, carry on with it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection, transaction

from operations import rows
from reconcilers import asking, engine, queue
from reconcilers.conclusions import conclude
from reconcilers.models import ProviderAccount

__all__ = [
    "AskedAgain",
    "ask_again",
    "conclude",
    "look",
    "pause_account",
    "resume_account",
    "wake_account",
]

_LANE_DUE: Final = """
UPDATE reconcilers_duelook SET due_at = clock_timestamp()
 WHERE lane = %s AND due_at IS NOT NULL AND purpose = 'settle'
"""


@dataclass(frozen=True)
class AskedAgain:
    """When the look is due, whether one is being made already, and whether anybody can be asked."""

    due_at: datetime
    is_looking: bool
    can_be_asked: bool


def ask_again(op_id: UUID, *, actor: str) -> AskedAgain | None:
    """Due now, whatever the schedule says; the engine takes it up within a second or two.

    For an UNKNOWN operation the look settles it, for any other its effects are counted again.
    None where there is no such operation.
    """
    with transaction.atomic(), connection.cursor() as cur:
        asked = asking.ask_for(cur, [op_id], actor=actor).get(op_id)
    if asked is None:
        return None
    due_at, is_looking, lane = asked
    return AskedAgain(due_at, is_looking, lane != queue.NO_LANE)


def look(op_id: UUID, *, actor: str, seconds: float = 15.0) -> dict[str, int]:
    """Look now and wait for it: for commands and tests. Serves whatever else is due meanwhile."""
    ask_again(op_id, actor=actor)
    return dict(engine.run(seconds))


def pause_account(account_id: UUID, *, actor: str) -> None:
    """Ask this account nothing until it is resumed; its operations say so."""
    del actor  # The console's audit trail names it; an account has no ledger of its own.
    with transaction.atomic(), connection.cursor() as cur:
        moment = rows.clock(cur)
        ProviderAccount.objects.filter(pk=account_id, paused_at=None).update(paused_at=moment)
        cur.execute(_LANE_DUE, (str(account_id),))


def wake_account(account_id: UUID) -> None:
    """What waits for this account is asked again now: something about it was changed."""
    with connection.cursor() as cur:
        cur.execute(_LANE_DUE, (str(account_id),))


def resume_account(account_id: UUID, *, actor: str) -> None:
    """Ask again, beginning with what waited."""
    del actor
    with transaction.atomic(), connection.cursor() as cur:
        ProviderAccount.objects.filter(pk=account_id).update(paused_at=None)
        cur.execute(_LANE_DUE, (str(account_id),))
