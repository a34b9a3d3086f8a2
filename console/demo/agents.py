"""Keeps the demo's agents running, as processes that know nothing of this one but two URLs."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db import DatabaseError, connection

from console.demo import seeding
from console.demo.notes import Notes

_TICK_SECONDS: Final = 2.0
#: What an agent runtime has no business knowing.
_OURS: Final = ("DATABASE_", "REDIS_", "SECRET_KEY", "COUNTERSIGN_", "DJANGO_", "PG")
_ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass
class _Child:
    argv: Sequence[str]
    env: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    def tend(self) -> None:
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.argv], cwd=_ROOT, env=self.env
            )

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Attendant:
    """Starts the agents, and the robot reviewer once there is somebody for it to stand beside."""

    def __init__(
        self, notes: Notes, seeded: seeding.Seeded, console_url: str, provider_url: str, seed: int
    ) -> None:
        self._notes = notes
        self._console_url = console_url
        self._stopped = threading.Event()
        state = ["--state", str(notes.folder / "agents"), "--seed", str(seed)]
        where = ["--console", console_url, "--provider", provider_url]
        env = _environment() | {
            "COUNTERSIGN_DEMO_KEY": seeded.api_key,
            "COUNTERSIGN_DEMO_PROVIDER_KEY": seeding.PROVIDER_KEY,
        }
        self._children = [_Child(["crashlab.demo_agents", *where, *state], env)]
        self._has_robot = False

    def run(self) -> None:
        """Until SIGTERM or SIGINT; leaves no process behind."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopped.set())
        try:
            while not self._stopped.is_set():
                self._call_the_robot()
                for child in self._children:
                    child.tend()
                self._stopped.wait(_TICK_SECONDS)
        finally:
            for child in self._children:
                child.stop()

    def _call_the_robot(self) -> None:
        if self._has_robot:
            return
        try:
            found = seeding.robot_reviewer(self._notes)
        except DatabaseError:
            connection.close()
            return
        if found is None:
            return
        token, key = found
        argv = ["crashlab.demo_agents.reviewer", "--console", self._console_url]
        env = _environment() | {"COUNTERSIGN_DEMO_REVIEWER_TOKEN": token}
        self._children.append(_Child([*argv, "--ssh-key", str(key)], env))
        self._has_robot = True
        connection.close()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    # Console and provider are on this machine, whatever proxy it uses for the world.
    return kept | {"NO_PROXY": "localhost,127.0.0.1"}
