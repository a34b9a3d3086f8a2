"""The demo of `make run`: within two minutes every state is there to be seen, and nothing is
doubled but what the demo doubles on purpose."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from crashlab.demo_agents.stories import story_of
from tests.support.product import Product

pytestmark = [pytest.mark.slow, pytest.mark.crash, pytest.mark.xdist_group("demo")]

STATES = {"PENDING", "INVOKED", "COMMITTED", "FAILED", "UNKNOWN"}
FAILURES = {"provider_declined", "budget_exceeded"}
INCIDENTS = {"args_conflict", "permanent_failure", "version_changed", "duplicate_effect"}
WITHIN_SECONDS = 120


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    product = Product(tmp_path_factory.mktemp("demo") / "data")
    product.start(demo=True)
    try:
        yield product
    finally:
        product.stop()


@pytest.fixture(scope="module")
def console(demo: Product) -> Iterator[httpx.Client]:
    secrets = json.loads((demo.data.path / "demo" / "secrets.json").read_text())
    headers = {"Authorization": f"Bearer {secrets['api key']}"}
    with httpx.Client(base_url=demo.base_url, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def seen(console: httpx.Client) -> dict[str, Any]:
    """What was seen until every state was, and each kind of story had its turn."""
    states: set[str] = set()
    found: dict[str, Any] = {}
    deadline = time.monotonic() + WITHIN_SECONDS
    while time.monotonic() < deadline:
        operations = pages(console)
        states |= {operation["state"] for operation in operations}
        failures = {operation["failure"] for operation in operations} - {None}
        incidents = {
            incident["kind"] for operation in operations for incident in operation["incidents"]
        }
        found = {"states": states, "failures": failures, "incidents": incidents}
        if states == STATES and failures >= FAILURES and incidents >= INCIDENTS:
            break
        time.sleep(1)
    return found


def pages(console: httpx.Client) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        query = {"limit": "200"} | ({"cursor": cursor} if cursor else {})
        page = console.get("/api/v1/operations", params=query).raise_for_status().json()
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return items


def test_every_state_is_seen_within_two_minutes(seen: dict[str, Any]) -> None:
    assert seen["states"] == STATES
    assert seen["failures"] >= FAILURES
    assert seen["incidents"] >= INCIDENTS


def test_only_the_deliberate_double_is_doubled(demo: Product, seen: dict[str, Any]) -> None:
    ledger = httpx.get(f"{demo.instance.provider_url}/ledger", timeout=30).json()
    twice = {effect["intent"] for effect in ledger["effects"]}
    twice = {intent for intent in twice if ledger["per_intent"][intent] > 1}
    assert len(twice) <= 1
    stories = [story_of("renewals", number, 7).name for number in range(14)]
    assert stories.count("sent_twice") == 1


def test_people_are_told_how_to_sign_in(demo: Product, seen: dict[str, Any]) -> None:
    assert "alice@example.com" in demo.output
    logins = demo.data.path / "demo-logins.txt"
    assert logins.stat().st_mode & 0o077 == 0
    assert len(logins.read_text().splitlines()) == 6


def test_a_restart_goes_on_with_unfinished_runs(
    demo: Product, console: httpx.Client, seen: dict[str, Any]
) -> None:
    unfinished = console.get("/api/v1/runs", params={"status": "unfinished", "agent": "payouts"})
    waiting = {run["run_id"] for run in unfinished.json()["items"]}
    assert waiting
    demo.kill("demo")
    log: Path = demo.data.logs / "demo.log"
    began = len(log.read_text())
    deadline = time.monotonic() + 60
    while not all(f"{run_id} (" in log.read_text()[began:] for run_id in waiting):
        assert time.monotonic() < deadline, f"not all of {waiting} gone on with"
        time.sleep(0.5)
