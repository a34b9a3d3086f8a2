"""Plain first claims: recorded and granted together, many at a time.

`FRESH` makes what is plainly the first claim of its call, `GRANT` gives each its lease. Where FRESH
makes nothing there is no row for GRANT to move, so that nothing is done: such a claim is decided
under locks by whoever asked (`approvals.admission`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from operations import answers, documents, granting, recording, said
from operations.actors import Runtime
from operations.claims import Answer
from operations.documents import Beside
from operations.naming import Intent
from operations.rows import LockedOperation


@dataclass(slots=True)
class PlainClaim:
    """A claim that nobody need approve, and that looks like the first of its kind."""

    intent: Intent
    runtime: Runtime
    answer: Answer | None = None
    op: LockedOperation = field(init=False)
    grant: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        intent = self.intent
        self.op = recording.as_recorded(intent, intent.id, None, [])
        self.grant = granting.parameters(self.op, intent.request, self.runtime, facts=intent.facts)

    @property
    def names(self) -> set[tuple[str, ...]]:
        """What no second member of its group may name: its key, its call, its run."""
        intent = self.intent
        scope = (intent.environment, intent.namespace)
        return {
            ("key", *scope, intent.idem_key),
            ("call", *scope, intent.derived_key),
            ("run", *scope, intent.request.run_id),
        }


def record(cur: Any, claims: Sequence[PlainClaim]) -> None:
    """Send the statement that records them."""
    births = [recording.parameters(one.intent, one.runtime) for one in claims]
    cur.execute(recording.FRESH, {"said": said.document(births)})


def grant(cur: Any, claims: Sequence[PlainClaim]) -> None:
    """Send the statement that grants what was recorded."""
    cur.execute(granting.GRANT, {"said": said.document(one.grant for one in claims)})


def take(recorded: Any, granted: Any, claims: Sequence[PlainClaim]) -> None:
    """Read what both cursors brought; claims that were not plain keep `answer` None."""
    made = {row[0]: row[1:] for row in recorded.fetchall()}
    given = {row[0]: row for row in granted.fetchall()}
    for one in claims:
        if one.op.id in made and one.op.id in given:
            _execute(one, made[one.op.id], given[one.op.id])


def _execute(one: PlainClaim, made: tuple[Any, ...], given: tuple[Any, ...]) -> None:
    op = one.op
    op.run_pk, op.created_at, flags = made
    op.flags = recording.read_flags(flags)
    granted = granting.take_grant(op, one.grant, given)
    may_have_sent = granted.permit is not None or not one.intent.request.is_fenced
    operation = documents.operation_document(op, Beside(may_have_sent=may_have_sent))
    one.answer = answers.execute(op, operation, granted)
