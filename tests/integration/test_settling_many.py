"""Many settled at once end as each alone would: same rows, same events, same refusals."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from operations import closing, settling, settling_many
from operations.actors import RECONCILER
from operations.models import Attempt, Event, Incident, Operation
from operations.settling_many import Held, Seen
from tests.support import claiming
from tests.support.claiming import MAIL, PUT, Agent

pytestmark = pytest.mark.django_db

FOUND = {"kind": "committed", "sentence": "It happened.", "code": "found"}
WAITING = {"kind": "waiting", "sentence": "Nothing yet.", "code": "before_settle_point"}


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def doubtful(agent: Agent, tool: str = MAIL, **said: Any) -> Operation:
    granted = agent.claim(agent.call(tool=tool, **said))
    agent.report(granted, "unknown")
    return agent.row(granted)


def seen(op: Operation, ref: str | None = "pi_1") -> Seen:
    return Seen(
        op_id=op.id,
        provider_ref=ref,
        effect_status="succeeded",
        verdict=FOUND,
        evidence={"verdict": "committed"},
    )


def together(*those: Seen) -> set[Any]:
    with transaction.atomic(), connection.cursor() as cur:
        return settling_many.settle_committed_many(cur, those, actor=RECONCILER)


def alone(op: Operation) -> None:
    one = seen(op)
    with transaction.atomic(), connection.cursor() as cur:
        settling.set_verdict(cur, op.id, one.verdict, actor=RECONCILER)
        settling.settle_committed(
            cur,
            op.id,
            actor=RECONCILER,
            provider_ref=one.provider_ref,
            effect_status=one.effect_status,
            evidence=one.evidence,
        )


def left_behind(op: Operation) -> dict[str, Any]:
    """Everything that a settlement writes, without what differs from one operation to the next."""
    op.refresh_from_db()
    own = {"id", "run", "idem_key", "derived_key", "created_at", "updated_at"}
    own |= {"first_sent_at", "key_expires_at"}
    row = {
        field.name: getattr(op, field.name)
        for field in Operation._meta.concrete_fields
        if field.name not in own
    }
    events = Event.objects.filter(operation=op.id).order_by("id")
    attempts = Attempt.objects.filter(operation=op).order_by("number")
    return {
        "row": row,
        "events": list(
            events.values_list("version", "type", "from_state", "to_state", "actor", "data")
        )[-2:],
        "attempts": list(
            attempts.values_list("standing", "outcome", "provider_ref", "result_sha256")
        ),
        "ended": all(attempt.ended_at for attempt in attempts),
        "incidents": list(Incident.objects.filter(operation=op).values_list("kind", flat=True)),
    }


@pytest.mark.parametrize("tool", [MAIL, PUT])
def test_together_they_leave_what_each_alone_would(agent: Agent, tool: str) -> None:
    first, second, third = (doubtful(agent, tool) for _ in range(3))
    alone(first)
    assert together(seen(second), seen(third)) == {second.id, third.id}
    assert left_behind(second) == left_behind(first)
    assert left_behind(third) == left_behind(first)
    assert first.state == "COMMITTED"


def test_a_verdict_that_stands_already_is_not_told_twice(agent: Agent) -> None:
    op = doubtful(agent)
    with transaction.atomic(), connection.cursor() as cur:
        settling.set_verdict(cur, op.id, FOUND, actor=RECONCILER)
    together(seen(op))
    told = Event.objects.filter(operation=op.id, type="operation.verdict")
    assert told.count() == 1
    op.refresh_from_db()
    assert op.state == "COMMITTED"


class TestWhatIsNotPlain:
    def test_a_second_attempt_in_doubt(self, agent: Agent) -> None:
        request = agent.call(tool=PUT)
        agent.report(agent.claim(request), "unknown")
        op = Operation.objects.get(namespace=agent.namespace)
        claiming.release(op, "replay")
        again = agent.claim(dataclasses.replace(request, attempt_id="another"))
        agent.report(again, "unknown")
        self.nothing_is_written(op)

    def test_an_intent_that_moved_meanwhile(self, agent: Agent) -> None:
        op = doubtful(agent)
        alone(op)
        self.nothing_is_written(op)

    def test_a_compensation_that_waits(self, agent: Agent) -> None:
        op = doubtful(agent)
        agent.claim(agent.call(tool=MAIL, compensates=op.idem_key))
        self.nothing_is_written(op)

    def test_an_approval_that_was_refused(self, agent: Agent) -> None:
        op = doubtful(agent)
        with connection.cursor() as cur:
            cur.execute("SET session_replication_role = replica")
            cur.execute("UPDATE operations_operation SET gate = 'refused' WHERE id = %s", (op.id,))
            cur.execute("SET session_replication_role = DEFAULT")
        self.nothing_is_written(op)

    def nothing_is_written(self, op: Operation) -> None:
        before = left_behind(op)
        assert together(seen(op, "pi_2")) == set()
        assert left_behind(op) == before


def test_a_closed_intent_is_committed_all_the_same(agent: Agent) -> None:
    op = doubtful(agent)
    closing.close(agent.runtime, op.idem_key)
    assert together(seen(op)) == {op.id}
    op.refresh_from_db()
    assert (op.state, op.closed) == ("COMMITTED", True)


class TestHolding:
    def hold(self, *held: Held) -> set[Any]:
        with transaction.atomic(), connection.cursor() as cur:
            return settling_many.hold_many(cur, held, actor=RECONCILER)

    def test_an_event_where_the_kind_has_changed_and_none_where_not(self, agent: Agent) -> None:
        until = timezone.now() + timedelta(minutes=5)
        ops = [doubtful(agent) for _ in range(2)]
        held = [Held(op_id=op.id, verdict=WAITING, waiting_on="look", waiting_until=until)
                for op in ops]  # fmt: skip
        assert self.hold(*held) == {op.id for op in ops}
        versions = []
        for op in ops:
            op.refresh_from_db()
            versions.append(op.version)
            assert (op.state, op.verdict, op.waiting_on) == ("UNKNOWN", WAITING, "look")
            assert op.waiting_until == until
        later = until + timedelta(minutes=5)
        assert self.hold(*(dataclasses.replace(one, waiting_until=later) for one in held))
        for op, version in zip(ops, versions, strict=True):
            op.refresh_from_db()
            assert (op.version, op.waiting_until) == (version, later)
            told = Event.objects.filter(operation=op.id, type="operation.verdict")
            assert [event.data["kind"] for event in told] == ["waiting"]

    def test_what_is_not_unknown_any_more_is_left_alone(self, agent: Agent) -> None:
        op = doubtful(agent)
        alone(op)
        before = left_behind(op)
        held = Held(op_id=op.id, verdict=WAITING, waiting_on="look", waiting_until=None)
        assert self.hold(held) == set()
        assert left_behind(op) == before
