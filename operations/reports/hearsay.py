"""Records about an operation that was claimed, released or settled: evidence, judged like a report.

What claim mode granted is known from its attempts' rows; a record of any other send is an attempt
in doubt that nobody fenced. Positive records are believed from anyone; a negative record counts
nothing here, because only the very sender of an attempt can vouch for it, by its number. One
operation at a time, under its lock.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from operations import attempts, effects, fold, intents, states, transitions
from operations.actors import Runtime
from operations.attempts import AttemptRow, Tries
from operations.catalogue import ToolFacts
from operations.effects import Effect
from operations.fold import AttemptFold
from operations.reports.births import Call
from operations.reports.broken_promises import Opening
from operations.reports.reported import Reported

#: How an operation ended that somebody had said no to.
_REFUSED: Final = frozenset({"denied", "expired", "withdrawn"})
_INSERT: Final = """
INSERT INTO operations_attempt
    (operation_id, number, attempt_id, origin, layer, worker, runtime, standing, fenced,
     granted_at, lease_seconds, lease_expires_at, emits_until, ended_at, outcome, error_replayed)
VALUES (%s, %s, %s, 'hearsay', %s, %s, %s, 'in_doubt', false, %s, 0, %s, %s, %s, 'unknown', false)
"""


def judge(
    cur: Any, call: Call, tries: Tries, facts: ToolFacts, opening: Opening, runtime: Runtime
) -> None:
    """Judge the batch's records about one locked operation; incidents are left with `opening`."""
    judging = _Judging(cur, call, tries, facts, opening, runtime)
    told = fold.attempts_of(record.fact() for record in call.reported)
    # What has happened comes first: it needs no detour through a doubt that it ends.
    for attempt_id, said in sorted(told.items(), key=lambda item: item[1].kind != fold.COMMITTED):
        judging.attempt(attempt_id, said)


class _Judging:
    def __init__(
        self,
        cur: Any,
        call: Call,
        tries: Tries,
        facts: ToolFacts,
        opening: Opening,
        runtime: Runtime,
    ) -> None:
        self.cur = cur
        self.op = call.op
        self.records: Sequence[Reported] = call.reported
        self.tries = tries
        self.facts = facts
        self.opening = opening
        self.runtime = runtime

    def attempt(self, attempt_id: str, said: AttemptFold) -> None:
        row = self._row_of(attempt_id)
        if said.kind == fold.COMMITTED:
            self._positive(attempt_id, said, row)
        elif row is None:
            if said.sent:
                self._send_never_granted(attempt_id)
        elif row.standing == "live":
            self._about_the_live_one(row, said)

    def _row_of(self, attempt_id: str) -> AttemptRow | None:
        """The newest attempt of that id; a record without one speaks of the newest granted."""
        named = [row for row in self.tries if row.attempt_id == attempt_id]
        if not named and not attempt_id:
            named = [row for row in self.tries if row.origin == "claim"]
        return max(named, key=lambda row: row.number, default=None)

    def _positive(self, attempt_id: str, said: AttemptFold, row: AttemptRow | None) -> None:
        was_unknown_to_claims = row is None or row.origin == "hearsay"
        if row is None and said.had_effect:
            row = self._doubted(attempt_id)
        self._check_approval(was_unknown_to_claims)
        effect = Effect(said.provider_ref, self._status(attempt_id), said.result_sha256)
        actor = self.runtime.actor
        if self.op.state == states.COMMITTED:
            effects.again(self.cur, self.op, self.tries, row, effect, actor=actor)
            return
        if self._only_hearsay_was_in_doubt():
            self.opening.about_operation(self.op, "late_effect", f"{self.op.id}", was=self.op.state)
        self._keep_result(attempt_id, row)
        effects.commit(self.cur, self.op, self.tries, row, effect, actor=actor)

    def _only_hearsay_was_in_doubt(self) -> bool:
        """Whether claim mode by itself would have said PENDING: records alone made it UNKNOWN."""
        granted = [row for row in self.tries if row.origin == "claim"]
        return self.op.state == states.UNKNOWN and not any(
            row.standing in ("live", "in_doubt") for row in granted
        )

    def _send_never_granted(self, attempt_id: str) -> None:
        row = self._doubted(attempt_id)
        self._check_approval(is_hearsay=True)
        told = {"attempt": row.number, "reason": "never_granted", "records": self._ids(attempt_id)}
        op, actor = self.op, self.runtime.actor
        if op.state in (states.PENDING, states.FAILED):
            # Its runtime was told that it failed: whatever is found, it is never released again.
            closed = {"closed": True, "closed_as": op.failure} if op.failure else {}
            transitions.transition(
                self.cur, op, states.UNKNOWN, "operation.in_doubt", actor=actor, data=told, **closed
            )
            return
        transitions.record_event(self.cur, op, "operation.hearsay", actor=actor, data=told)
        if op.state == states.COMMITTED and not self.facts.dedupes and not self._is_harmless():
            self.opening.about_operation(
                op, "possible_duplicate", f"{op.id}", attempts_in_doubt=[row.number]
            )

    def _about_the_live_one(self, row: AttemptRow, said: AttemptFold) -> None:
        if said.kind == fold.IN_DOUBT:
            attempts.doubt(self.cur, row, "unknown", self.facts, self.tries.now)
            transitions.transition(
                self.cur,
                self.op,
                states.UNKNOWN,
                "operation.in_doubt",
                actor=self.runtime.actor,
                data={"attempt": row.number, "records": self._ids(row.attempt_id)},
            )
        elif said.kind == fold.STARTED and said.sent:
            attempts.update(self.cur, row, sending_at=self.tries.now)

    def _check_approval(self, is_hearsay: bool) -> None:
        """A send that nobody had granted, of a call that somebody had to approve."""
        op = self.op
        if not is_hearsay:
            return
        if op.gate in ("refused", "revoked") or op.failure in _REFUSED:
            kind = "executed_after_denial"
        elif op.gate == "waiting":
            kind = "executed_without_approval"
        else:
            return
        self.opening.about_operation(op, kind, f"{op.id}", approval=op.gate_ref)

    def _doubted(self, attempt_id: str) -> AttemptRow:
        """A row for an attempt that was never granted.

        Its number is below zero: it is no fencing token, and fences out no attempt that is live.
        """
        number = min([0, *(row.number for row in self.tries)]) - 1
        now = self.tries.now
        lease_end = now + timedelta(seconds=self.facts.lease_seconds)
        record = self._first(attempt_id)
        self.cur.execute(
            _INSERT,
            (
                self.op.id, number, attempt_id, record.layer, record.worker, self.runtime.key_id,
                now, lease_end, attempts.emits_until_of_lease(lease_end, self.facts), now,
            ),
        )  # fmt: skip
        known: Mapping[int, AttemptRow] = {row.number: row for row in self.tries}
        loaded = attempts.load(self.cur, self.op).rows
        self.tries.rows[:] = [known.get(row.number, row) for row in loaded]
        return next(row for row in self.tries if row.number == number)

    def _keep_result(self, attempt_id: str, row: AttemptRow | None) -> None:
        for record in self._of(attempt_id):
            if record.type == "TOOL_COMMITTED" and record.result_sha256 is not None:
                number = row.number if row is not None else 0
                result = record.raw("result")
                intents.keep_payload(self.cur, self.op.id, "result", result, number)
                return

    def _is_harmless(self) -> bool:
        return self.facts.tool_class == "safe"

    def _status(self, attempt_id: str) -> str | None:
        statuses = (record.effect_status for record in self._of(attempt_id))
        return next((status for status in statuses if status), None)

    def _ids(self, attempt_id: str) -> list[str]:
        return [record.record_id for record in self._of(attempt_id)][:20]

    def _first(self, attempt_id: str) -> Reported:
        return self._of(attempt_id)[0]

    def _of(self, attempt_id: str) -> list[Reported]:
        return [record for record in self.records if record.attempt_id == attempt_id]
