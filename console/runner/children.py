"""One child process: started, watched, restarted when it dies, stopped when asked."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from console.runner.logs import PYTHON_ERRORS, ChildLog
from console.runner.spawn import child_setup

# The first restart is at once (somebody killed it); a child that keeps dying is tried ever less.
_BACKOFF_SECONDS = (0.05, 0.5, 1.0, 2.0, 5.0, 10.0)
_STEADY_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """What to run, and how it is stopped."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 8.0
    preexec: Callable[[], None] | None = None
    pass_fds: tuple[int, ...] = ()
    # A child that may finish is done when it exits with 0; any other exit is a death.
    may_finish: bool = False
    # The product's processes need the services, so services stop last, one after the other.
    is_service: bool = False
    errors: re.Pattern[str] = PYTHON_ERRORS


class Child:
    """A spec, alive."""

    def __init__(self, spec: ChildSpec, logs: Path, changed: Callable[[], None]) -> None:
        self.spec = spec
        self.log = ChildLog(spec.name, logs, spec.errors)
        self.pid: int | None = None
        self.deaths = 0
        self.finished = False
        self._changed = changed
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start it, and keep it alive from now on."""
        self._task = asyncio.create_task(self._keep_alive(), name=self.spec.name)

    async def stop(self) -> None:
        """Ask it to end; make it end when it takes too long."""
        self._stopping.set()
        self.log.quiet = True
        if self._task is None:
            return
        self._signal(self.spec.stop_signal)
        done, _ = await asyncio.wait([self._task], timeout=self.spec.stop_seconds)
        if not done:
            self.log.note(f"still there after {self.spec.stop_seconds:g} s: killed")
            self._signal(signal.SIGKILL)
            await self._task
        self.log.close()

    def kill(self) -> None:
        """End it now."""
        self._stopping.set()
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def _keep_alive(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            if code == 0 and self.spec.may_finish:
                self.finished = True
                return
            self.deaths += 1
            failures = 0 if time.monotonic() - began > _STEADY_SECONDS else failures + 1
            pause = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
            self.log.note(f"ended with {describe_exit(code)}; restart in {pause:g} s")
            print(f"{self.spec.name} ended with {describe_exit(code)}; restarting", flush=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _run_once(self) -> int:
        spec = self.spec
        # A pipe of our own. With asyncio's, waiting for the process would also wait for whatever
        # else holds the pipe open: what a killed child left behind.
        output, its_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *spec.argv,
                env=dict(spec.env) or None,
                stdin=subprocess.DEVNULL,
                stdout=its_end,
                stderr=its_end,
                preexec_fn=spec.preexec or child_setup(signal.SIGKILL),
                # Its own group: Ctrl-C reaches us alone, and what it leaves behind can be swept.
                start_new_session=True,
                pass_fds=spec.pass_fds,
            )
        except BaseException:
            os.close(output)
            raise
        finally:
            os.close(its_end)
        self.pid = process.pid
        self._changed()
        if self._stopping.is_set():
            self._signal(spec.stop_signal)
        with self._reading(output):
            code = await process.wait()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        self.pid = None
        self._changed()
        return code

    @contextlib.contextmanager
    def _reading(self, output: int) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        os.set_blocking(output, False)

        def read_some() -> bool:
            try:
                chunk = os.read(output, 65536)
            except BlockingIOError:
                return False
            self.log.feed(chunk)
            if not chunk:
                loop.remove_reader(output)
            return bool(chunk)

        loop.add_reader(output, read_some)
        try:
            yield
        finally:
            while read_some():
                pass
            loop.remove_reader(output)
            os.close(output)


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
