"""Undoing an effect by a new operation, opened by a person: own key, own approval, linked.

It stands in the original's run and step under the call id `compensate:<original>`, so that a
runtime finds it in its run and claims it as any other call: with the arguments that were signed,
or with the original's, and is then given the signed ones (`args_raw`). It runs once the original
is COMMITTED and is cancelled if that ends FAILED.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from operations import canonical, catalogue, endings, naming, recording, rows, runs, transitions
from operations.actors import Runtime
from operations.claims import ClaimRequest
from operations.errors import CONSTRAINTS, DomainError
from operations.rows import LockedOperation

CALL_ID: Final = "compensate:"


@dataclass(frozen=True, slots=True)
class _Person(Runtime):
    """Somebody who records an intent for a runtime to claim."""

    person: str = ""

    @property
    def actor(self) -> str:
        return self.person


_EARLIER: Final = """
SELECT count(*) FROM operations_operation
 WHERE run_id = %s AND step = %s AND compensates_id = %s
"""


def open_for(
    cur: Any, original: LockedOperation, *, tool: str, args_raw: bytes, actor: str
) -> LockedOperation:
    """Record the compensation of a locked operation; DomainError where one is there already.

    `args_raw` is the exact JSON text of its arguments. The run is read, not locked: budgets are
    counted when the compensation is claimed.
    """
    if endings.has_live_compensation(cur, original.id):
        raise DomainError(*CONSTRAINTS["operation_has_one_live_compensation"])
    run = runs.read(cur, original.run_pk)
    request = ClaimRequest(
        run_id=original.run_id,
        agent=run.agent,
        step=original.step,
        tool=tool,
        args=canonical.parse_strict(args_raw),
        args_raw=args_raw,
        tool_call_id=_call_id(cur, original),
        compensates=original.idem_key,
    )
    by = _Person(
        key_id=UUID(int=0), name="", environment=original.environment,
        namespace=original.namespace, scopes=frozenset(), person=actor,
    )  # fmt: skip
    intent = naming.describe(request, by, catalogue.current(cur))
    made = recording.make(cur, intent, run, by, original.id)
    if made is None:
        raise DomainError(
            "KEY_COLLISION",
            "Another call of this run has the key that the compensation would have.",
            idem_key=intent.idem_key,
        )
    rows.touch(cur, made, waiting_on="look", waiting_until=None)
    transitions.record_event(
        cur, original, "operation.compensation_opened", actor=actor,
        data={"compensation": made.handle, "tool": tool, "args_fingerprint": made.args_fingerprint},
    )  # fmt: skip
    return made


def _call_id(cur: Any, original: LockedOperation) -> str:
    """One that failed keeps its key for ever; the next one is numbered."""
    cur.execute(_EARLIER, (original.run_pk, original.step, original.id))
    earlier = cur.fetchone()[0]
    return f"{CALL_ID}{original.handle}" + (f":{earlier + 1}" if earlier else "")
