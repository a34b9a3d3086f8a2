"""What others may ask of the reconciler: look again now, pause an account, carry on with it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from operations import catalogue, rows, states
from reconcilers import accounts, engine, queue
from reconcilers.conclusions import conclude
from reconcilers.models import ProviderAccount

__all__ = ["AskedAgain", "ask_again", "conclude", "look", "pause_account", "resume_account"]

#: People press twice: a look that is being made answers for both.
_ASK: Final = """
INSERT INTO reconcilers_duelook AS due
    (operation_id, lane, purpose, due_at, since, fence, looks, failures, strikes, holder, asked_by)
VALUES (%(op)s, %(lane)s, %(purpose)s, clock_timestamp(), clock_timestamp(), 0, 0, 0, 0, '',
        %(actor)s)
ON CONFLICT (operation_id) DO UPDATE
   SET due_at = clock_timestamp(), asked_by = excluded.asked_by, lane = excluded.lane,
       purpose = CASE WHEN due.purpose = 'rest' THEN excluded.purpose ELSE due.purpose END
RETURNING due_at, leased_until >= clock_timestamp()
"""
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
        op = rows.read(cur, op_id=op_id)
        if op is None:
            return None
        lane = _lane_of(cur, op)
        purpose = "settle" if op.state == states.UNKNOWN else "recheck"
        cur.execute(_ASK, {"op": op_id, "lane": lane, "purpose": purpose, "actor": actor})
        due_at, is_looking = cur.fetchone()
    return AskedAgain(due_at, bool(is_looking), lane != queue.NO_LANE)


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


def resume_account(account_id: UUID, *, actor: str) -> None:
    """Ask again, beginning with what waited."""
    del actor
    with transaction.atomic(), connection.cursor() as cur:
        ProviderAccount.objects.filter(pk=account_id).update(paused_at=None)
        cur.execute(_LANE_DUE, (str(account_id),))


def _lane_of(cur: Any, op: rows.LockedOperation) -> str:
    facts = catalogue.current(cur).facts(op.tool)
    here = list(ProviderAccount.objects.filter(environment=op.environment, namespace=op.namespace))
    account, _ = accounts.resolve(here, reconciler=facts.reconciler, provider=facts.provider)
    return str(account.id) if account else queue.NO_LANE
