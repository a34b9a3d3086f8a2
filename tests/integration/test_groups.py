"""Claims and outcomes that are carried out together are answered as if each were alone."""

from typing import Any

import psycopg
import pytest
from django.db import DataError, connection

from approvals import admission
from operations import outcomes, states
from operations.claims import ClaimRequest, OutcomeReport
from operations.first_claims import PlainClaim
from operations.models import Event, Operation
from operations.together import Group
from tests.support import claiming
from tests.support.claiming import CHARGE, MAIL, PUT, Agent
from tests.support.committed import _django_db_helper  # noqa: F401

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def claim(agent: Agent, **said: Any) -> PlainClaim:
    made = admission.plain(fenced_call(agent, **said), agent.runtime)
    assert made is not None
    return made


def fenced_call(agent: Agent, **said: Any) -> ClaimRequest:
    return agent.call(**{"attempt_id": "a1", "fenced": True, "send_token": "t1", **said})


def success(agent: Agent, key: str, **said: Any) -> outcomes.PlainOutcome:
    facts: dict[str, Any] = {"attempt_number": 1, "outcome": "committed"}
    report = OutcomeReport(**(facts | said))
    made = outcomes.plain(agent.runtime, key, report)
    assert made is not None
    return made


def carry_out(*members: PlainClaim | outcomes.PlainOutcome) -> None:
    group = Group()
    for member in members:
        assert group.add(member)
    group.carry_out()


def test_each_claim_of_a_group_is_answered_as_if_it_were_alone(agent: Agent) -> None:
    tools = [PUT, MAIL, CHARGE, "tests.unregistered"]
    members = [claim(agent, tool=tools[number % 4], reason="\0 any") for number in range(12)]
    carry_out(*members)
    for one in members:
        alone = agent.claim(fenced_call(agent, tool=one.intent.tool, reason="\0 any"))
        assert one.answer is not None
        assert one.answer.status == alone.status == 201
        assert one.answer.body.keys() == alone.body.keys()
        told = {"operation", "idem_key", "lease_expires_at"}
        for name in alone.body.keys() - told:
            if name != "send_within_ms":
                assert one.answer.body[name] == alone.body[name], name
        row = Operation.objects.get(idem_key=one.intent.idem_key)
        assert (row.state, row.version, row.attempts) == (states.INVOKED, 2, 1)
        types = Event.objects.filter(operation=row).order_by("version").values_list("type")
        assert [kind for (kind,) in types] == ["operation.recorded", "operation.invoked"]


def test_claims_and_successes_share_one_group(agent: Agent) -> None:
    first = [claim(agent) for _ in range(5)]
    carry_out(*first)
    second = [claim(agent) for _ in range(5)]
    done = [
        success(agent, one.intent.idem_key, result=b'{"id": 1}', provider_ref=f"ch_{n}")
        for n, one in enumerate(first)
    ]
    carry_out(*second, *done)
    assert all(one.answer for one in second)
    for n, one in enumerate(done):
        assert one.answer is not None
        said = one.answer["operation"]
        assert (said["state"], said["provider_ref"]) == ("COMMITTED", f"ch_{n}")
        assert said["result"] == {"id": 1}


def test_what_is_not_plain_is_left_alone_and_harms_no_neighbour(agent: Agent) -> None:
    known = fenced_call(agent)
    key = agent.claim(known).body["idem_key"]
    again = admission.plain(known, agent.runtime)
    assert again is not None
    plain, unknown = claim(agent), success(agent, "nobody-has-claimed-this")
    carry_out(again, unknown, plain)
    other_args = claim(agent, run_id=known.run_id, args={"other": 1})
    carry_out(other_args)
    second_attempt = success(agent, key, attempt_number=2)
    carry_out(second_attempt)
    assert plain.answer is not None
    assert again.answer is None
    assert other_args.answer is None
    assert unknown.answer is None
    assert second_attempt.answer is None
    row = agent.row(key)
    assert (row.state, row.attempts, row.version) == (states.INVOKED, 1, 2)
    assert agent.incidents() == []


def test_a_group_names_each_key_call_and_run_once(agent: Agent) -> None:
    one = claim(agent)
    group = Group(one)
    assert not group.add(claim(agent, run_id=one.intent.request.run_id, step=99))
    assert not group.add(claim(agent, idem_key=one.intent.idem_key))
    assert not group.add(success(agent, one.intent.idem_key))
    assert group.add(claim(agent))
    # The same names in another namespace are other names.
    assert group.add(claim(Agent(), run_id=one.intent.request.run_id))


def test_one_member_that_the_database_refuses_undoes_the_group(agent: Agent) -> None:
    good = claim(agent)
    bad = claim(agent, redacted=("/\0",))
    with pytest.raises(DataError):
        carry_out(good, bad)
    connection.close()
    assert good.answer is None
    assert not Operation.objects.filter(idem_key=good.intent.idem_key).exists()
    assert agent.claim(good.intent.request).status == 201


def test_a_commit_waits_for_nobody_who_holds_the_row(agent: Agent) -> None:
    held, free = agent.claim(fenced_call(agent)), agent.claim(fenced_call(agent))
    with psycopg.connect(**address()) as other:
        other.execute(
            "SELECT FROM operations_operation WHERE id = %s FOR UPDATE", (agent.row(held).id,)
        )
        blocked, done = (success(agent, answer.body["idem_key"]) for answer in (held, free))
        carry_out(blocked, done)
        other.rollback()
    assert done.answer is not None
    assert blocked.answer is None
    assert agent.report(held, "committed")["operation"]["state"] == "COMMITTED"


def address() -> dict[str, Any]:
    found = connection.get_connection_params()
    return {name: found[name] for name in ("dbname", "user", "host", "port") if name in found}
