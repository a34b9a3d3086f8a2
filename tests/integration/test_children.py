"""The supervisor's children: restarted when they die, stopped when asked, swept afterwards."""

import asyncio
import os
import signal
import sys

import pytest

from console.runner.children import Child, ChildSpec

PATIENT = "import time\nprint('up', flush=True)\ntime.sleep(60)"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PATIENT


async def until(condition, within_seconds=10):
    async with asyncio.timeout(within_seconds):
        while not condition():  # noqa: ASYNC110 -- processes set no events
            await asyncio.sleep(0.01)


@pytest.fixture
def start(tmp_path):
    def start(code, **details):
        spec = ChildSpec(name="child", argv=[sys.executable, "-c", code], **details)
        child = Child(spec, tmp_path, changed=lambda: None)
        child.start()
        return child

    return start


async def test_a_killed_child_is_back_at_once(start):
    child = start(PATIENT)
    await until(lambda: child.pid)
    first = child.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: child.pid not in (None, first), within_seconds=3)
    assert child.deaths == 1
    await child.stop()


async def test_a_child_that_keeps_dying_is_tried_ever_less(start):
    child = start("raise SystemExit(3)")
    await until(lambda: child.deaths == 2)
    await asyncio.sleep(0.3)
    assert child.deaths == 2
    assert "exit code 3" in child.log.tail()
    await child.stop()


async def test_a_child_that_may_finish_is_left_in_peace(start):
    child = start("print('done')", may_finish=True)
    await until(lambda: child.finished)
    assert child.deaths == 0
    assert "done" in child.log.tail()
    await child.stop()


async def test_stopping_asks_first_and_then_insists(start):
    child = start(STUBBORN, stop_seconds=0.5)
    await until(lambda: "up" in child.log.tail())
    pid = child.pid
    await child.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert "killed" in child.log.tail()


async def test_what_a_dead_child_left_behind_is_swept(start, tmp_path):
    code = (
        "import subprocess, sys\n"
        f"left = subprocess.Popen([sys.executable, '-c', {PATIENT!r}])\n"
        f"open({str(tmp_path / 'left')!r}, 'w').write(str(left.pid))\n" + PATIENT
    )
    child = start(code)
    await until(lambda: (tmp_path / "left").exists() and (tmp_path / "left").read_text())
    orphan = int((tmp_path / "left").read_text())
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    await until(lambda: _gone(orphan))
    await child.stop()


def _gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
