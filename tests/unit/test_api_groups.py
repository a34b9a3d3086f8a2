"""Who travels with whom: gathering requests into groups, without a database."""

import asyncio
import threading
from typing import Any, cast

import pytest
from django.db import OperationalError

from console.api import groups, problems
from console.api.groups import Groups
from console.api.requests import Answer, Request
from console.api.routes import Route
from console.api.workers import Workers
from operations.errors import DomainError


class Member:
    def __init__(self, name: str, *, plain: bool = True) -> None:
        self.name, self.plain = name, plain
        self.answer: dict[str, Any] | None = None


class FakeGroup:
    """Notes who travelled together; a test may hold it up or make it fail."""

    journeys: list[list[str]] = []
    may_return = threading.Event()
    failure: Exception | None = None

    def __init__(self) -> None:
        self.members: list[Member] = []

    def add(self, member: Member) -> bool:
        if any(member.name == other.name for other in self.members):
            return False
        self.members.append(member)
        return True

    def carry_out(self) -> None:
        FakeGroup.journeys.append([member.name for member in self.members])
        FakeGroup.may_return.wait(5)
        if FakeGroup.failure is not None:
            raise FakeGroup.failure
        for member in self.members:
            member.answer = {"done": member.name} if member.plain else None


class FakeRequest:
    def __init__(self, name: str, *, plain: bool = True, size: int = 0) -> None:
        self.name, self.plain, self.body = name, plain, b"x" * size


class FakeDatabase:
    has_been_open = True

    def is_lost(self, error: Exception) -> bool:
        return True

    def close(self) -> None: ...


class Threads:
    """Threads without a database connection."""

    def __init__(self, *said: object, **more: object) -> None: ...

    async def run(self, work: Any, *arguments: Any) -> Any:
        return await asyncio.to_thread(work, *arguments)


def member(request: FakeRequest) -> Member | None:
    if request.name == "malformed":
        raise problems.malformed("No JSON.", "")
    if request.name == "nameless":
        raise DomainError("TOOL_CALL_ID_MISSING", "No id.")
    return None if request.name == "gated" else Member(request.name, plain=request.plain)


def alone(request: FakeRequest) -> Answer:
    if request.name == "away":
        raise problems.unavailable()
    return Answer(200, {"alone": request.name})


ROUTE = Route("POST", "/x", alone, member=member)


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeGroup.journeys, FakeGroup.failure = [], None
    FakeGroup.may_return.set()
    monkeypatch.setattr(groups, "Group", FakeGroup)
    monkeypatch.setattr(groups, "connections", {"default": FakeDatabase()})
    monkeypatch.setattr(groups, "Workers", Threads)


async def ask(lane: Groups, *requests: FakeRequest) -> list[Any]:
    asked = (lane.run(ROUTE, cast(Request, request)) for request in requests)
    found = await asyncio.gather(*asked, return_exceptions=True)
    return [one.body if isinstance(one, Answer) else getattr(one, "code", one) for one in found]


async def departures(count: int) -> None:
    async with asyncio.timeout(5):
        while len(FakeGroup.journeys) < count:  # noqa: ASYNC110 -- told from another thread
            await asyncio.sleep(0.002)


def lane() -> Groups:
    class Ordinary:
        async def run(self, work: Any, *arguments: Any) -> Any:
            return work(*arguments)

    return Groups(cast(Workers, Ordinary()))


async def test_a_request_that_finds_nobody_away_leaves_at_once(gathered: None) -> None:
    assert await ask(lane(), FakeRequest("a")) == [{"done": "a"}]
    assert FakeGroup.journeys == [["a"]]


async def test_what_arrives_while_a_group_is_away_travels_together(
    gathered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_LONG_AWAY_SECONDS", 60)
    FakeGroup.may_return.clear()
    here = lane()
    first = asyncio.create_task(ask(here, FakeRequest("a")))
    await departures(1)
    rest = asyncio.create_task(ask(here, *(FakeRequest(name) for name in "bcd")))
    await asyncio.sleep(0.01)
    assert here.waiting == 3
    FakeGroup.may_return.set()
    assert await first == [{"done": "a"}]
    assert await rest == [{"done": name} for name in "bcd"]
    assert FakeGroup.journeys == [["a"], ["b", "c", "d"]]


async def test_a_group_that_is_long_away_is_not_waited_for(
    gathered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_LONG_AWAY_SECONDS", 0.02)
    FakeGroup.may_return.clear()
    here = lane()
    tasks = [asyncio.create_task(ask(here, FakeRequest("a")))]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(ask(here, FakeRequest("b"))))
    await departures(2)
    FakeGroup.may_return.set()
    assert await asyncio.gather(*tasks) == [[{"done": "a"}], [{"done": "b"}]]


async def test_who_finds_no_room_takes_the_next_group(gathered: None) -> None:
    assert await ask(lane(), *(FakeRequest("a") for _ in range(3))) == [{"done": "a"}] * 3
    assert FakeGroup.journeys == [["a"], ["a"], ["a"]]


async def test_what_is_not_plain_gets_its_ordinary_answer(gathered: None) -> None:
    asked = [
        FakeRequest("a", plain=False), FakeRequest("gated"), FakeRequest("b"),
        FakeRequest("malformed"), FakeRequest("nameless"), FakeRequest("long", size=100_000),
    ]  # fmt: skip
    assert await ask(lane(), *asked) == [
        {"alone": "a"}, {"alone": "gated"}, {"done": "b"},
        "MALFORMED_JSON", "TOOL_CALL_ID_MISSING", {"alone": "long"},
    ]  # fmt: skip


async def test_members_of_a_failed_group_are_answered_alone(gathered: None) -> None:
    FakeGroup.failure = OperationalError("gone")
    assert await ask(lane(), FakeRequest("a"), FakeRequest("b")) == [
        {"alone": "a"},
        {"alone": "b"},
    ]


async def test_after_a_lost_commit_nobody_is_told_that_nothing_was_stored(gathered: None) -> None:
    FakeGroup.failure = OperationalError("gone")
    assert await ask(lane(), FakeRequest("away")) == ["OUTCOME_UNCERTAIN"]
    FakeGroup.failure = None
    assert await ask(lane(), FakeRequest("away", plain=False)) == ["UNAVAILABLE"]
