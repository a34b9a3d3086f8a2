"""The SDK against the real console and the simulated provider: agents die, stop, and are doubled.

The judge is the provider's book: one effect per intent, whatever happened.
"""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import countersign
import pytest
from countersign import Client

from tests.support.product import Product
from tests.support.sdk_agent import ARGS, AgentProcess
from tests.support.simulated_provider import SimulatedProvider

#: No catalogue knows it: unsafe, class N, and in test nobody needs to approve it.
TOOL = "mail.untold"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def api_key(live_product: Product) -> str:
    return live_product.create_api_key("sdk tests")


@pytest.fixture
def client(live_product: Product, api_key: str, tmp_path: Path) -> Iterator[Client]:
    with Client(live_product.base_url, api_key, agent="tests", spool_dir=tmp_path) as client:
        yield client


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def key(run_id: str) -> str:
    return countersign.derive_key(run_id, 1, "call_1")


@pytest.fixture
def agent(
    live_product: Product, api_key: str, provider: SimulatedProvider, tmp_path: Path, run_id: str
) -> Iterator[Callable[..., AgentProcess]]:
    """Starts an agent process that makes this test's one call."""
    started: list[AgentProcess] = []

    def start(**more: Any) -> AgentProcess:
        given = {"console": live_product.base_url, "key": api_key, "provider": provider.url}
        given |= {"run": run_id, "tool": TOOL, "spool": str(tmp_path / "agent")}
        started.append(AgentProcess(**given | more))
        return started[-1]

    yield start
    for process in started:
        process.end()


def effects(provider: SimulatedProvider, key: str) -> int:
    return int(provider.ledger(intent=key)["count"])


def until(client: Client, key: str, seconds: float = 20, **wanted: Any) -> dict[str, Any]:
    """The operation, once it is as wanted."""
    deadline = time.monotonic() + seconds
    while True:
        operation = client.operation(key)
        if all(operation[name] == value for name, value in wanted.items()):
            return operation
        assert time.monotonic() < deadline, f"{wanted} not seen: {operation}"
        time.sleep(0.1)


def test_r01_a_step_that_runs_again_finds_its_result(
    client: Client, agent: Callable[..., AgentProcess], provider: SimulatedProvider, key: str
) -> None:
    first, again = agent(), agent()
    told = [first.says(), again.says()]
    assert sorted(one["replayed"] for one in told) == [False, True]
    assert told[0]["result"] == told[1]["result"]
    assert effects(provider, key) == 1
    operation = client.operation(key)
    assert (operation["state"], operation["attempts"]) == ("COMMITTED", 1)


def test_two_processes_with_one_attempt_id_send_once(
    agent: Callable[..., AgentProcess], provider: SimulatedProvider, key: str
) -> None:
    twins = [agent(options={"attempt_id": "the-same"}) for _ in range(4)]
    told = [twin.says() for twin in twins]
    assert sum(not one["replayed"] for one in told) == 1
    assert effects(provider, key) == 1
    assert [twin.ends() for twin in twins] == [0] * 4


@pytest.mark.parametrize("mishap", ["stopped_before_send", "stopped_after_claim"])
def test_a_stopped_sender_that_wakes_too_late_sends_nothing(
    client: Client,
    agent: Callable[..., AgentProcess],
    provider: SimulatedProvider,
    key: str,
    mishap: str,
) -> None:
    sleeper = agent(mishap=mishap, options={"lease_seconds": 2, "attempts": 1})
    assert sleeper.says()["state"] == "stopping"
    # The lease runs out. With a permit given, silence is doubt and not absence.
    until(client, key, state="UNKNOWN")
    sleeper.go_on()
    told = sleeper.says()
    assert told["error"] == "PermitLapsed"
    assert effects(provider, key) == 0
    # It could prove that it sent nothing, so the call may be made again, once.
    until(client, key, state="PENDING")
    again = agent()
    assert again.says()["replayed"] is False
    assert effects(provider, key) == 1


def test_r21_a_killed_sender_leaves_doubt_that_nobody_repeats(
    client: Client, agent: Callable[..., AgentProcess], provider: SimulatedProvider, key: str
) -> None:
    """W3: the effect happened and no one was told."""
    # Long enough for another process to start meanwhile on a busy machine.
    victim = agent(mishap="killed_after_effect", options={"lease_seconds": 8})
    assert victim.ends() == -9
    # At once: another attempt holds the lease.
    hasty = agent(options={"timeout": 0.3})
    assert hasty.says()["error"] == "AttemptInFlight"
    operation = until(client, key, state="UNKNOWN")
    assert "W3" in operation["possible_windows"]
    later = agent(options={"timeout": 3, "on_unknown": "raise"})
    told = later.says()
    assert told["error"] == "OutcomeUnknown"
    assert "Do not repeat it by hand" in told["says"]
    assert effects(provider, key) == 1
    assert client.operation(key)["attempts"] == 1


def test_a_sender_killed_before_it_sent_leaves_doubt_too(
    client: Client, agent: Callable[..., AgentProcess], provider: SimulatedProvider, key: str
) -> None:
    """W2: from records alone it looks like W3."""
    victim = agent(mishap="killed_before_send", options={"lease_seconds": 2})
    assert victim.ends() == -9
    operation = until(client, key, state="UNKNOWN")
    assert "W2" in operation["possible_windows"]
    assert effects(provider, key) == 0


def test_a_timeout_is_unknown_and_not_failed(
    client: Client, agent: Callable[..., AgentProcess], provider: SimulatedProvider, key: str
) -> None:
    provider.fault({"hold_seconds": 4}, times=1, path="/mail/send")
    slow = agent(options={"on_unknown": "raise"})
    assert slow.says()["error"] == "ReadTimeout"
    assert client.operation(key)["state"] == "UNKNOWN"
    assert effects(provider, key) == 1


def test_reworded_arguments_are_refused_and_the_first_stand(
    client: Client, agent: Callable[..., AgentProcess], provider: SimulatedProvider, key: str
) -> None:
    first = agent()
    assert first.says()["replayed"] is False
    reworded = agent(args=ARGS | {"subject": "Hello!"})
    assert reworded.says()["error"] == "ArgsConflict"
    operation = client.operation(key)
    assert [incident["kind"] for incident in operation["incidents"]] == ["args_conflict"]
    assert effects(provider, key) == 1


def test_a_provider_that_is_down_is_tried_again_with_the_same_key(
    client: Client, agent: Callable[..., AgentProcess], provider: SimulatedProvider, key: str
) -> None:
    nowhere = agent(provider="http://127.0.0.1:9", options={"attempts": 2})
    assert nowhere.says()["error"] == "ConnectError"
    operation = client.operation(key)
    assert (operation["state"], operation["attempts"]) == ("PENDING", 2)
    back = agent()
    assert back.says()["replayed"] is False
    assert effects(provider, key) == 1


def test_the_key_and_the_fingerprint_are_the_servers(client: Client, run_id: str) -> None:
    args = {"amount": 25000.0, "ids": [9007199254740993], "name": "Zoë \U0001f600", "f": 0.1}
    done = client.guard(run_id, 1, "call_1", TOOL, args, lambda cleared: cleared.args)
    assert done.operation is not None
    assert done.operation["idem_key"] == countersign.derive_key(run_id, 1, "call_1")
    assert done.operation["args_fingerprint"] == countersign.fingerprint(args)
    assert done.value["ids"] == [9007199254740993]


def test_a_run_is_resumed_where_it_stopped(client: Client, run_id: str) -> None:
    said = {"tool": TOOL, "args": ARGS}
    run = client.run(run_id)
    run.call(1, "a", TOOL, ARGS, lambda cleared: {"id": "m1"}, model_output=said)
    with pytest.raises(ZeroDivisionError):
        run.call(2, "b", TOOL, ARGS, lambda cleared: 1 / 0, model_output={"tool": "other"})
    resumed = client.resume(run_id)
    assert (resumed.known, resumed.resume_from_step) == (True, 2)
    assert resumed.model_output(1) == said
    assert resumed.model_output(2) == {"tool": "other"}
    assert resumed.result_of(1, "a") == {"id": "m1"}
    assert any(run["run_id"] == run_id for run in client.unfinished_runs(agent="tests"))


def test_one_trigger_starts_one_run(client: Client, run_id: str) -> None:
    trigger = f"evt_{run_id}"
    with client.run(run_id, trigger=trigger) as run:
        run.call(1, "a", TOOL, ARGS, lambda cleared: 1)
    again = client.run(f"{run_id}-again", trigger=trigger)
    with pytest.raises(countersign.DuplicateRun) as twice:
        again.call(1, "a", TOOL, ARGS, lambda cleared: 1)
    assert twice.value.run_id == run_id


def test_the_readmes_example_runs_and_replays(
    live_product: Product, api_key: str, provider: SimulatedProvider, tmp_path: Path
) -> None:
    readme = (Path(__file__).resolve().parents[2] / "sdk" / "README.md").read_text()
    example = readme.split("```python\n")[1].split("```")[0]
    env = {
        "CONSOLE_URL": live_product.base_url,
        "CONSOLE_KEY": api_key,
        "PROVIDER_URL": provider.url,
        "PROVIDER_KEY": provider.secret_key,
        "XDG_STATE_HOME": str(tmp_path),
    }
    said = [
        subprocess.run(
            [sys.executable, "-c", example],
            env=os.environ | env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert [execution for execution, _ in said] == ["fresh", "replayed"]
    assert said[0][1] == said[1][1]


def test_long_effects_keep_their_lease(client: Client, key: str, run_id: str) -> None:
    def long(cleared: countersign.ClearedCall) -> bool:
        time.sleep(3)
        return cleared.lease_lost

    done = client.guard(run_id, 1, "call_1", TOOL, ARGS, long, lease_seconds=1)
    assert done.value is False
    assert client.operation(key)["state"] == "COMMITTED"
