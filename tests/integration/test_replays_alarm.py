"""I08: one key answered from the store again and again is an incident, once."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support import claiming
from tests.support.claiming import MAIL, Agent

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    claiming.publish(*claiming.TOOLS)
    return Agent()


def replay(agent: Agent, request: Any, times: int) -> None:
    for _ in range(times):
        assert agent.claim(replace(request, attempt_id=None)).body["decision"] == "replay"


def test_sixty_replays_of_one_key_are_one_incident(agent: Agent, settings: Any) -> None:
    settings.REPLAY_ALARM = 5
    request = agent.call(tool=MAIL)
    granted = agent.claim(request)
    agent.report(granted, "committed")
    replay(agent, request, 5)
    assert agent.incidents() == []
    replay(agent, request, 55)
    assert agent.incidents() == ["replayed_too_often"]
    assert agent.row(granted).replays == 60


def test_it_can_be_switched_off(agent: Agent, settings: Any) -> None:
    settings.REPLAY_ALARM = 0
    request = agent.call(tool=MAIL)
    agent.report(agent.claim(request), "committed")
    replay(agent, request, 8)
    assert agent.incidents() == []
