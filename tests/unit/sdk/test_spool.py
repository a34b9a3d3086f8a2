"""Reports survive the console's absence and this process's death."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import countersign
import httpx
import pytest
from countersign import Client
from countersign.spool import Report, Spool

from tests.support.scripted_console import ScriptedConsole, execute, problem
from tests.unit.sdk.conftest import Sdk

AWAY = httpx.ConnectError("refused")


def test_a_result_is_returned_though_the_console_is_away(
    sdk: Sdk, console: ScriptedConsole
) -> None:
    console.on("outcome", AWAY)
    done = sdk.guard()
    assert (done.value, done.reported) == ("done", False)
    (kept,) = sdk.spool.glob("*.json")
    assert json.loads(kept.read_text())["body"]["outcome"] == "committed"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sdk.spool.stat().st_mode & 0o777 == 0o700


def test_a_new_process_delivers_what_the_last_one_left(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("outcome", AWAY)
    sdk.guard()
    sdk.guard(step=4)
    first = [body["attempt_id"] for body in console.told("outcome")]
    console.on("outcome", (200, {"operation": {}})).asked.clear()
    with sdk.client() as client:
        assert client.flush(5) == 0
        assert client.spooled == 0
    delivered = [body["attempt_id"] for body in console.told("outcome")]
    assert sorted(set(delivered), key=delivered.index) == sorted(set(first), key=first.index)


def test_the_relay_delivers_by_itself_once_the_console_is_back(
    console: ScriptedConsole, tmp_path: Path
) -> None:
    delivered = threading.Event()

    def taken(asked: object) -> object:
        delivered.set()
        return 200, {"operation": {}}

    console.on("outcome", AWAY, AWAY, AWAY, taken)
    with Sdk("threads", console, tmp_path).client() as client:
        client.guard("run", 1, "c", "t", {}, lambda cleared: 1)
        assert delivered.wait(10)


def test_the_report_is_on_disk_before_it_is_sent(console: ScriptedConsole, tmp_path: Path) -> None:
    seen: list[Path] = []

    def look(asked: object) -> object:
        seen.extend(tmp_path.glob("*.json"))
        return 200, {"operation": {}}

    console.on("outcome", look)
    Sdk("threads", console, tmp_path).guard()
    assert len(seen) == 1
    assert list(tmp_path.glob("*.json")) == []


def test_what_the_console_will_never_take_is_put_aside(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("outcome", problem(422, "VALIDATION_ERROR"))
    assert sdk.guard().reported is False
    assert list(sdk.spool.glob("*.json")) == []
    (aside,) = (sdk.spool / "refused").glob("*.json")
    assert "VALIDATION_ERROR" in aside.with_name(f"{aside.name}.why").read_text()


@pytest.mark.parametrize("status", [401, 403, 503])
def test_what_it_may_take_later_is_kept(sdk: Sdk, console: ScriptedConsole, status: int) -> None:
    console.on("outcome", problem(status, "X"))
    assert sdk.guard().reported is False
    assert len(list(sdk.spool.glob("*.json"))) == 1


def test_an_unknown_key_is_delivered_to_the_inbox(sdk: Sdk, console: ScriptedConsole) -> None:
    console.on("outcome", problem(404, "NOT_FOUND"))
    sdk.guard()
    assert list(sdk.spool.glob("**/*.json")) == []


def test_a_full_disk_loses_nothing_while_the_process_lives(
    console: ScriptedConsole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Spool, name: str, report: Report) -> None:
        raise OSError(28, "No space left on device")

    console.on("outcome", AWAY, AWAY, (200, {"operation": {}}))
    with Sdk("threads", console, tmp_path).client() as client:
        monkeypatch.setattr(Spool, "_store", full)
        assert client.guard("run", 1, "c", "t", {}, lambda cleared: 1).value == 1
        assert client.flush(5) == 0
    assert console.told("outcome")[-1]["outcome"] == "committed"


def test_a_folder_that_cannot_be_used_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="spool_dir"):
        Client("http://console", "key", spool_dir=tmp_path / "file")


def test_without_a_folder_reports_wait_in_memory(console: ScriptedConsole) -> None:
    console.on("outcome", AWAY, (200, {"operation": {}}))
    sdk = Sdk("threads", console, Path())
    with sdk.client(spool_dir=None) as client:
        assert not client.guard("run", 1, "c", "t", {}, lambda cleared: 1).reported
        assert client.flush(5) == 0


def test_another_living_process_delivers_its_own(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.release(spool.keep(Report("outcome", "/p", {})))
    (mine,) = tmp_path.glob("*.json")
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    theirs = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{sleeper.pid}-"))
    mine.rename(theirs)
    try:
        assert spool.waiting() == []
    finally:
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()
    assert spool.waiting() == [theirs.name]


def test_a_report_cut_off_by_a_crash_is_put_aside(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (tmp_path / "00000000000000000001-1-1.json").write_text('{"kind": "outc')
    assert [spool.read(name) for name in spool.waiting()] == [None]
    assert len(list((tmp_path / "refused").glob("*.json"))) == 1


# The console is away from the start ---------------------------------------------------------------


def test_a_call_that_cannot_be_claimed_is_not_executed(sdk: Sdk, console: ScriptedConsole) -> None:
    sdk.settings["claim_seconds"] = 0.1
    console.on("claim", AWAY)
    with pytest.raises(countersign.ConsoleUnavailable) as away:
        sdk.guard()
    assert away.value.retryable
    assert "was not executed" in str(away.value)
    assert sdk.executed == []
    assert len(console.told("claim")) > 1


def test_a_tool_that_only_reads_may_go_on_and_is_told_of_later(
    sdk: Sdk, console: ScriptedConsole
) -> None:
    sdk.settings["claim_seconds"] = 0
    console.on("claim", AWAY)
    console.on("records", AWAY, (200, {"accepted": 2, "results": []}))
    done = sdk.guard(safe=True)
    assert (done.value, done.reported) == ("done", False)
    with sdk.client() as client:
        assert client.flush(5) == 0
    invoked, committed = console.told("records")[-1]
    assert [invoked["type"], committed["type"]] == ["TOOL_INVOKED", "TOOL_COMMITTED"]
    assert invoked["attempt"] == committed["attempt"]
    assert committed["result"] == "done"


def test_a_storm_of_failures_ends_retries_early(sdk: Sdk, console: ScriptedConsole) -> None:
    sdk.settings["claim_seconds"] = 60
    console.on("claim", AWAY)
    with pytest.raises(countersign.ConsoleUnavailable):
        sdk.guard()
    assert len(console.told("claim")) == 21


def test_heartbeats_and_relay_start_anew_after_a_fork(
    console: ScriptedConsole, tmp_path: Path
) -> None:
    console.on("claim", execute()).on("outcome", AWAY)
    with Sdk("threads", console, tmp_path).client() as client:
        client.guard("run", 1, "c", "t", {}, lambda cleared: 1)
        relay = client._background._relay
        relay._pid = -1
        relay.wake()
        assert relay._pid == os.getpid()
