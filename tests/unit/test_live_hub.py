"""The live stream's hub: folding, catching up, ending."""

import asyncio

import pytest

from console.live import feed, hub
from console.live.feed import Change
from console.live.hub import Client, Hub


def change(seq, thing="op_1", version=1, topic="ops", event="op-changed"):
    return Change(seq, topic, event, thing, version)


class InLoop:
    """Runs blocking calls at once."""

    async def run(self, work, *arguments):
        return work(*arguments)


class Log:
    """Stands in for the sealed events."""

    def __init__(self, monkeypatch):
        self.changes: list[Change] = []
        monkeypatch.setattr(feed, "newest", lambda: len(self.changes))
        monkeypatch.setattr(feed, "after", self.after)

    def after(self, seq):
        found = [entry for entry in self.changes if entry.seq > seq]
        return (found[-1].seq if found else seq), found

    def add(self, *things):
        self.changes += [
            change(len(self.changes) + n, thing) for n, thing in enumerate(things, start=1)
        ]


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(hub, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(hub, "_FOLD_SECONDS", 0.02)
    return Log(monkeypatch)


async def yes():
    return True


async def no():
    return False


async def read_until(stream, part):
    text = ""
    async with asyncio.timeout(5):
        async for chunk in stream:
            text += chunk.decode()
            if part in text:
                return text
    raise AssertionError(f"the stream ended: {text!r}")


def test_a_burst_is_folded_to_the_newest_version_of_each_thing():
    client = Client(frozenset())
    client.offer([change(1, version=1), change(2, version=2), change(3, "op_2", version=9)])
    text = client.take(3).decode()
    assert text == (
        'id: 2\nevent: op-changed\ndata: {"id":"op_1","v":2}\n\n'
        'id: 3\nevent: op-changed\ndata: {"id":"op_2","v":9}\n\n'
    )
    assert client.take(3) == b""
    assert not client.has_news.is_set()


def test_a_client_hears_only_its_topics_or_things():
    approvals = Client(frozenset({"approvals"}))
    one_thing = Client(frozenset({"op_2"}))
    changes = [
        change(1, "op_1"),
        change(2, "op_2"),
        change(3, "apr_1", None, "approvals", "approval-changed"),
    ]
    for client in (approvals, one_thing):
        client.offer(changes)
    assert approvals.take(3) == b'id: 3\nevent: approval-changed\ndata: {"id":"apr_1"}\n\n'
    assert one_thing.take(3) == b'id: 2\nevent: op-changed\ndata: {"id":"op_2","v":1}\n\n'


def test_too_much_at_once_becomes_one_resync():
    client = Client(frozenset())
    client.offer([change(n, f"op_{n}") for n in range(1, 1000)])
    assert client.take(999) == b"id: 999\nevent: resync\ndata: {}\n\n"


async def test_a_client_hears_what_is_sealed_after_it_came(log):
    log.add("op_old")
    live = Hub(InLoop())
    stream = live.stream(frozenset(), None, yes)
    assert "retry:" in (await anext(stream)).decode()
    reading = asyncio.create_task(read_until(stream, "op_new"))
    await asyncio.sleep(0.05)
    log.add("op_new")
    text = await reading
    assert "op_old" not in text
    live.stop()


async def test_a_client_that_comes_back_is_sent_what_it_missed(log):
    log.add("op_1", "op_2", "op_3")
    live = Hub(InLoop())
    text = await read_until(live.stream(frozenset(), 1, yes), "op_3")
    assert "op_2" in text
    assert "op_1" not in text
    live.stop()


async def test_a_client_that_was_away_too_long_fetches_everything_anew(log):
    log.changes = [change(10_000, "op_1")]
    feed_newest = feed.newest
    feed.newest = lambda: 10_000
    try:
        live = Hub(InLoop())
        text = await read_until(live.stream(frozenset(), 1, yes), "resync")
        assert "op_1" not in text
        live.stop()
    finally:
        feed.newest = feed_newest


async def test_a_stream_ends_with_its_session(log, monkeypatch):
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.02)
    live = Hub(InLoop())
    chunks = [chunk async for chunk in live.stream(frozenset(), None, no)]
    assert chunks[-1] == b"event: signed-out\ndata: {}\n\n"
    assert live.count == 0


async def test_a_quiet_stream_has_a_heartbeat(log, monkeypatch):
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.02)
    live = Hub(InLoop())
    await read_until(live.stream(frozenset(), None, yes), ": still here")
    live.stop()


async def test_a_stop_ends_every_stream(log):
    live = Hub(InLoop())

    async def read_all():
        return [chunk async for chunk in live.stream(frozenset(), None, yes)]

    readers = [asyncio.create_task(read_all()) for _ in range(3)]
    await asyncio.sleep(0.05)
    assert live.count == 3
    live.stop()
    async with asyncio.timeout(1):
        await asyncio.gather(*readers)
    assert live.count == 0


async def test_the_poller_outlives_a_database_that_is_away(log, monkeypatch):
    live = Hub(InLoop())
    stream = live.stream(frozenset(), None, yes)
    await anext(stream)
    reading = asyncio.create_task(read_until(stream, "op_later"))
    await asyncio.sleep(0.03)

    def away(seq):
        raise OSError("away")

    monkeypatch.setattr(feed, "after", away)
    await asyncio.sleep(0.05)
    monkeypatch.setattr(feed, "after", log.after)
    log.add("op_later")
    await reading
    live.stop()
