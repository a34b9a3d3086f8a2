"""The database's own wall: the trigger holds the table of states.py, and append-only means it."""

import itertools
import uuid
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from operations import states
from operations.models import Event, Operation, Payload, Standing
from tests.support import claiming
from tests.support.claiming import MAIL, Agent

pytestmark = pytest.mark.django_db

PAIRS = list(itertools.product(states.STATES, states.STATES))


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def in_state(agent: Agent, state: str) -> Operation:
    """An operation in this state, made by walking there."""
    granted = agent.claim(tool=MAIL)
    if state == states.PENDING:
        agent.nothing_happened(granted)
    elif state == states.COMMITTED:
        agent.report(granted, "committed")
    elif state == states.UNKNOWN:
        agent.report(granted, "unknown")
    elif state == states.FAILED:
        agent.nothing_happened(granted, permanent=True)
    row = agent.row(granted)
    assert row.state == state
    return row


def constraint_of(error: IntegrityError) -> str | None:
    return error.__cause__.diag.constraint_name  # type: ignore[attr-defined]


def write(op: Operation, **columns: Any) -> None:
    with transaction.atomic():
        Operation.objects.filter(id=op.id).update(**columns)


def test_the_trigger_and_the_module_hold_the_same_table() -> None:
    with connection.cursor() as cur:
        for pair in itertools.product((None, *states.STATES), states.STATES):
            cur.execute("SELECT operations_edge_events(%s, %s)", pair)
            found = cur.fetchone()[0]
            assert frozenset(found or ()) == states.TRANSITIONS.get(pair, frozenset()), pair


@pytest.mark.parametrize(("from_state", "to_state"), PAIRS)
def test_the_database_itself_refuses_what_the_table_does_not_hold(
    agent: Agent, from_state: str, to_state: str
) -> None:
    op = in_state(agent, from_state)
    ended = to_state in states.TERMINAL
    columns = {
        "state": to_state,
        "version": op.version + 1,
        "waiting_on": None if ended else "look",
        "lease_expires_at": op.created_at if to_state == states.INVOKED else None,
    }
    if from_state == to_state or (from_state, to_state) in states.TRANSITIONS:
        write(op, **columns)
        return
    with pytest.raises(IntegrityError) as refused:
        write(op, **columns)
    assert constraint_of(refused.value) == "operation_transition_is_in_the_table"


@pytest.mark.parametrize("state", [state for state in states.STATES if state != states.PENDING])
def test_an_operation_begins_pending(agent: Agent, state: str) -> None:
    op = in_state(agent, states.PENDING)
    op.id, op.idem_key, op.derived_key, op.state = uuid.uuid4(), "other", "other", state
    op.version, op.waiting_on, op.compensation_slot = 1, None, None
    with pytest.raises(IntegrityError), transaction.atomic():
        op.save(force_insert=True)


@pytest.mark.parametrize("step", [0, 2, -1])
def test_a_transition_raises_the_version_by_one(agent: Agent, step: int) -> None:
    op = in_state(agent, states.PENDING)
    with pytest.raises(IntegrityError) as refused:
        write(op, state="FAILED", waiting_on=None, version=op.version + step)
    assert constraint_of(refused.value) == "operation_version_rises_by_one"


def test_what_names_an_operation_never_changes_and_closed_stays_closed(agent: Agent) -> None:
    op = in_state(agent, states.UNKNOWN)
    for column, value in (("idem_key", "other"), ("derived_key", "other"), ("step", 9)):
        with pytest.raises(IntegrityError) as refused:
            write(op, **{column: value})
        assert constraint_of(refused.value) == "operation_identity_never_changes"
    write(op, closed=True)
    with pytest.raises(IntegrityError) as refused:
        write(op, closed=False)
    assert constraint_of(refused.value) == "operation_stays_closed"


def test_an_event_matches_its_edge(agent: Agent) -> None:
    op = in_state(agent, states.PENDING)
    wrong = Event(
        environment="test", namespace=op.namespace, operation=op, version=99, actor="system:x",
        type="operation.committed", from_state="PENDING", to_state="COMMITTED",
    )  # fmt: skip
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        wrong.save()
    assert constraint_of(refused.value) == "event_matches_its_transition"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE operations_event SET actor = 'somebody else'",
        "DELETE FROM operations_event",
        "TRUNCATE operations_event CASCADE",
        "DELETE FROM operations_payload",
        "UPDATE operations_payload SET body = 'other'",
        "UPDATE operations_payload SET sha256 = 'other'",
        "TRUNCATE operations_payload",
        "DELETE FROM operations_operation",
        "TRUNCATE operations_sealedevent",
        "TRUNCATE operations_record",
    ],
)
def test_append_only_means_it(agent: Agent, statement: str) -> None:
    in_state(agent, states.COMMITTED)
    with connection.cursor() as cur, transaction.atomic():
        cur.execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(IntegrityError) as refused, transaction.atomic():
            cur.execute(statement)
    assert (constraint_of(refused.value) or "").endswith("_is_append_only")


def test_a_payload_may_be_erased_and_its_digest_stays(agent: Agent) -> None:
    op = in_state(agent, states.COMMITTED)
    kept = Payload.objects.get(operation=op, kind="args")
    with connection.cursor() as cur:
        cur.execute(
            "UPDATE operations_payload SET body = NULL, erased_at = clock_timestamp()"
            " WHERE id = %s",
            (kept.id,),
        )
    assert bytes(Payload.objects.get(id=kept.id).sha256) == bytes(kept.sha256)


def test_the_open_table_holds_everything_but_what_is_committed(agent: Agent) -> None:
    for state in states.STATES:
        op = in_state(agent, state)
        found = Standing.objects.filter(operation_id=op.id).first()
        if state == states.COMMITTED:
            assert found is None
        else:
            assert found is not None
            due = op.lease_expires_at or op.waiting_until
            seen = (found.state, found.tool, found.waiting_on, found.gate, found.due_at)
            assert seen == (state, op.tool, op.waiting_on, op.gate, due)
