"""From a stored message to a look: matched by our key, and never believed.

What a message says becomes an unverified sighting among the findings, so that its object is read by
id, and a look is asked for. It is done when somebody has looked since it came; until then it is
asked for again, ever more slowly. A key that nobody has claimed yet goes to the operations' inbox,
which the claim reads first, and waits here.
"""

import json
import logging
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from operations import catalogue, inbox
from operations.actors import Scope
from reconcilers import asking, findings, registry
from reconcilers.evidence import Look, Outcome, Sighting, Stage

logger = logging.getLogger(__name__)

#: What findings of this origin are called; no tool can ask for such a look-up.
LOOKUP: Final = "webhook"
ACTOR: Final = "webhook"
#: A request's key is only ours if it looks like a derived one; a marker on the object always is.
_DERIVED: Final = re.compile(r"[0-9a-f]{64}")
#: A look is asked for again after 2, 4, 8… seconds, an hour at most.
_MOST_DOUBLINGS: Final = 11

_MATCHED: Final = """
SELECT event.id, event.account_id, account.name, account.kind, event.type, event.event_id,
       event.object_kind, event.mode, event.account_named, event.received_at, event.sighting,
       event.idem_key, account.environment, account.namespace, operation.id, operation.tool,
       operation.tool_version
  FROM reconcilers_providerevent event
  JOIN reconcilers_provideraccount account ON account.id = event.account_id
  LEFT JOIN operations_operation operation
    ON operation.environment = account.environment AND operation.namespace = account.namespace
   AND operation.idem_key = event.idem_key
 WHERE event.standing = 'received' OR (event.standing = 'waiting' AND operation.id IS NOT NULL)
 ORDER BY event.id LIMIT %s
   FOR NO KEY UPDATE OF event SKIP LOCKED
"""
_ASKED: Final = """
UPDATE reconcilers_providerevent
   SET standing = 'asked', operation_id = %s, asked_at = clock_timestamp(), asks = asks + 1
 WHERE id = %s
"""
_STANDS: Final = "UPDATE reconcilers_providerevent SET standing = %s, reason = %s WHERE id = %s"
_DONE: Final = """
UPDATE reconcilers_providerevent event SET standing = 'done'
 WHERE event.standing = 'asked'
   AND EXISTS (SELECT FROM reconcilers_finding look
                WHERE look.operation_id = event.operation_id AND look.lookup <> %s
                  AND look.outcome <> 'cannot_look' AND look.started_at >= event.received_at)
"""
# A look that failed has its own next time, which honours what the provider asked for.
_ASK_AGAIN: Final = """
SELECT event.id, event.operation_id FROM reconcilers_providerevent event
  LEFT JOIN reconcilers_duelook due ON due.operation_id = event.operation_id
 WHERE event.standing = 'asked'
   AND event.asked_at < clock_timestamp()
       - make_interval(secs => power(2, least(event.asks, %s))::int)
   AND (due.due_at IS NULL OR (due.due_at > clock_timestamp() AND due.failures = 0))
   AND (due.leased_until IS NULL OR due.leased_until < clock_timestamp())
 ORDER BY event.id LIMIT %s
   FOR NO KEY UPDATE OF event SKIP LOCKED
"""
_ASKED_AGAIN: Final = """
UPDATE reconcilers_providerevent SET asked_at = clock_timestamp(), asks = asks + 1
 WHERE id = ANY(%s)
"""


def run_once(*, limit: int = 500) -> dict[str, int]:
    """Match what came, close what was looked at, ask again for what was not; counts of each."""
    counts = {"hooks_matched": 0, "hooks_waiting": 0}
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute(_MATCHED, (limit,))
        rows = cur.fetchall()
        tools = catalogue.current(cur)
        worked_on = {_worked_on(cur, row, tools, counts) for row in rows}
        asking.ask_for(cur, sorted(filter(None, worked_on)), actor=ACTOR)
    with transaction.atomic(), connection.cursor() as cur:
        cur.execute(_DONE, (LOOKUP,))
        counts["hooks_done"] = cur.rowcount
        cur.execute(_ASK_AGAIN, (_MOST_DOUBLINGS, limit))
        again = cur.fetchall()
        if again:
            cur.execute(_ASKED_AGAIN, ([row[0] for row in again],))
            asking.ask_for(cur, sorted({row[1] for row in again}), actor=ACTOR)
    return counts


def _worked_on(
    cur: Any, row: Sequence[Any], tools: catalogue.Catalogue, counts: dict[str, int]
) -> UUID | None:
    """The operation that has to be looked at for this event, if there is one.

    An event that cannot be worked on is put aside alone: it stops neither the others nor the looks.
    """
    try:
        with transaction.atomic():
            event = _Event(row)
            if event.operation_id is None:
                counts["hooks_waiting"] += _wait(cur, event)
            else:
                _hint(cur, event, event.operation_id, tools)
                counts["hooks_matched"] += 1
            return event.operation_id
    except (OperationalError, InterfaceError):
        raise
    except (DatabaseError, KeyError, TypeError, ValueError) as error:
        logger.exception("event %s cannot be worked on", row[5])
        reason = f"it could not be worked on ({type(error).__name__}); the log says why"
        cur.execute(_STANDS, ("unreadable", reason, row[0]))
        return None


class _Event:
    """One row of `_MATCHED`."""

    def __init__(self, row: Sequence[Any]) -> None:
        self.id: int = row[0]
        self.account_id: UUID = row[1]
        self.account_name: str = row[2]
        self.account_kind: str = row[3]
        self.type: str = row[4]
        self.event_id: str = row[5]
        self.object_kind: str = row[6]
        self.mode: str = row[7]
        self.account_named: str = row[8]
        self.received_at: datetime = row[9]
        self.sighting: Sighting | None = _sighting(row[10])
        self.idem_key: str = row[11]
        self.scope = Scope(row[12], row[13])
        self.operation_id: UUID | None = row[14]
        self.tool: str = row[15] or ""


def _wait(cur: Any, event: _Event) -> int:
    """Nobody has claimed this key. If it is ours, whoever claims it hears of this first."""
    marked = event.sighting is not None and event.sighting.marker is not None
    if not (marked or _DERIVED.fullmatch(event.idem_key)):
        cur.execute(_STANDS, ("not_ours", "its key is none that was made here", event.id))
        return 0
    told = {"event": event.event_id, "type": event.type, "account": event.account_name}
    if event.sighting is not None:
        told |= {"object": event.sighting.id, "status": event.sighting.status}
    inbox.keep(
        cur,
        event.scope,
        event.idem_key,
        source=f"webhook:{event.account_name}",
        body=json.dumps(told).encode(),
    )
    reason = "no operation has this key yet; it is matched when one is claimed"
    cur.execute(_STANDS, ("waiting", reason, event.id))
    return 1


def _hint(cur: Any, event: _Event, op_id: UUID, tools: catalogue.Catalogue) -> None:
    """Leave what the message shows among the findings, where it is of the tool's own kind.

    Anything else that carries the key (the charge of a payment) only has the look made.
    """
    provider = registry.providers().get(event.account_kind)
    kind = tools.facts(event.tool).provider_object or (provider.default_object if provider else "")
    seen = event.sighting
    if seen is not None and seen.kind == kind:
        look = Look(
            lookup=LOOKUP,
            lookup_class="E",
            outcome=Outcome.PENDING if seen.stage is Stage.IN_FLIGHT else Outcome.HIT,
            started_at=event.received_at,
            ended_at=event.received_at,
            endpoint=f"webhook {event.type}",
            account_seen=event.account_named,
            mode=event.mode,
            request_id=event.event_id,
            sightings=(_of_key(seen, event.idem_key),),
        )
        findings.store(cur, event.account_id, [(op_id, look)])
    cur.execute(_ASKED, (op_id, event.id))


def _of_key(seen: Sighting, key: str) -> Sighting:
    """Where the object does not hold our key, its request did."""
    return seen if seen.marker else Sighting(**{**vars(seen), "marker": key})


def _sighting(document: Any) -> Sighting | None:
    members = json.loads(document) if isinstance(document, str) else document
    return findings.sighting_of(members) if members else None
