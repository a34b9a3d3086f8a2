"""`make run`: starts everything, keeps it running, stops it cleanly.

Order: claim the data folder, claim the port, start Postgres and Valkey, migrate, start the
product's processes, wait until it says that it is ready. Whatever fails before that is said in one
sentence, and nothing stays behind.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from console.runner import plan as plans
from console.runner.children import Child, ChildSpec
from console.runner.datadir import DataDir, Instance
from console.runner.ports import console_socket, free_port
from console.runner.postgres import EmbeddedPostgres, ServiceFailed
from console.runner.readiness import Answer, ask
from console.runner.spawn import child_setup
from console.runner.valkey import EmbeddedValkey

_SERVICE_SECONDS = 60.0
_READY_SECONDS = 90.0
_LOGINS_SECONDS = 60.0
_DEATHS_BEFORE_READY = 5


class BootFailed(Exception):
    """The product could not be started; the message says why, for a person."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for."""

    port: int
    data_dir: Path
    demo: bool
    host: str = "127.0.0.1"
    web_processes: int = 2
    worker_threads: int = 8


class Supervisor:
    """One run of the product."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.data = DataDir(options.data_dir)
        self.children: list[Child] = []
        self.stop_asked = asyncio.Event()
        self.began = time.monotonic()

    async def run(self) -> int:
        """Run until a signal; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._ask_to_stop)
        self.data.create()
        self.data.lock()
        with console_socket(self.options.host, self.options.port) as listener:
            self.port = int(listener.getsockname()[1])
            boot = asyncio.create_task(self._boot(listener.fileno()))
            stop = asyncio.create_task(self.stop_asked.wait())
            try:
                await asyncio.wait([boot, stop], return_when=asyncio.FIRST_COMPLETED)
                if boot.done():
                    boot.result()
                    await stop
                return 0
            finally:
                boot.cancel()
                stop.cancel()
                with contextlib.suppress(asyncio.CancelledError, BootFailed):
                    await boot
                await self._stop_everything()

    def _ask_to_stop(self) -> None:
        if self.stop_asked.is_set():
            # Asked twice: the person does not want to wait.
            for child in self.children:
                child.kill()
            return
        _say("stopping")
        self.stop_asked.set()

    async def _boot(self, socket_fd: int) -> None:
        options = self.options
        database_url = os.environ.get("DATABASE_URL") or await self._start_service(
            EmbeddedPostgres(self.data.path)
        )
        redis_url = os.environ.get("REDIS_URL") or await self._start_service(
            EmbeddedValkey(self.data.path)
        )
        provider_port = self._provider_port() if options.demo else 0
        instance = Instance(
            pid=os.getpid(),
            port=self.port,
            base_url=os.environ.get("COUNTERSIGN_ORIGIN") or f"http://localhost:{self.port}",
            database_url=database_url,
            redis_url=redis_url,
            provider_url=f"http://127.0.0.1:{provider_port}" if provider_port else "",
        )
        self.data.secrets()
        self.data.note_instance(instance)
        env = self._environment(instance)
        await self._migrate(env)
        self._logins.unlink(missing_ok=True)
        plan = plans.Plan(
            data_dir=self.data.path,
            socket_fd=socket_fd,
            env=env,
            web_processes=options.web_processes,
            worker_threads=options.worker_threads,
            provider_port=provider_port,
            demo=options.demo,
        )
        for spec in plans.product(plan):
            self._start(spec)
        await self._until_ready()
        await self._announce(instance)

    def _start(self, spec: ChildSpec) -> Child:
        child = Child(spec, self.data.logs, self._note_children)
        self.children.append(child)
        child.start()
        return child

    async def _start_service(self, embedded: EmbeddedPostgres | EmbeddedValkey) -> str:
        try:
            embedded.prepare()
        except (OSError, ServiceFailed) as error:
            raise BootFailed(f"{embedded.name} could not be set up: {error}") from error
        child = self._start(plans.service(embedded))
        deadline = time.monotonic() + _SERVICE_SECONDS
        while not (child.pid and embedded.is_ready()):
            if time.monotonic() > deadline or child.deaths >= _DEATHS_BEFORE_READY:
                raise BootFailed(f"{embedded.name} did not start:\n{child.log.tail()}")
            await asyncio.sleep(0.03)
        return embedded.url

    def _provider_port(self) -> int:
        # The simulated provider's address is in the demo's data, so it stays from run to run.
        port = free_port(self.data.remembered_ports().get("provider", 0))
        self.data.remember_ports({"provider": port})
        return port

    def _environment(self, instance: Instance) -> dict[str, str]:
        return os.environ | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DATA_DIR": str(self.data.path),
            "DATABASE_URL": instance.database_url,
            "REDIS_URL": instance.redis_url,
            "PORT": str(self.port),
            "COUNTERSIGN_ORIGIN": instance.base_url,
            "COUNTERSIGN_PROVIDER_URL": instance.provider_url,
            "DEMO": "1" if self.options.demo else "0",
            "PYTHONUNBUFFERED": "1",
        }

    async def _migrate(self, env: dict[str, str]) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *plans.manage("migrate", "--no-input", "--verbosity", "1"),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=child_setup(signal.SIGTERM),
            start_new_session=True,
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        (self.data.logs / "migrate.log").write_bytes(output)
        if process.returncode:
            last = "\n".join(output.decode(errors="replace").splitlines()[-25:])
            raise BootFailed(f"the database could not be migrated:\n{last}")

    async def _until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        for path in ("/healthz", "/readyz"):
            while (answer := await ask(self.options.host, self.port, path)).status != 200:
                self._refuse_endless_deaths()
                if time.monotonic() > deadline:
                    _say(f"not ready yet: {path} says {_brief(answer)}; still trying")
                    deadline = time.monotonic() + 30
                await asyncio.sleep(0.1)

    def _refuse_endless_deaths(self) -> None:
        for child in self.children:
            if child.deaths >= _DEATHS_BEFORE_READY:
                raise BootFailed(
                    f"{child.spec.name} keeps dying; its last words ({child.log.path}):\n"
                    f"{child.log.tail()}"
                )

    @property
    def _logins(self) -> Path:
        # Written by `manage.py demo` when its people exist: one line each, as it is to be shown.
        return self.data.path / "demo-logins.txt"

    async def _announce(self, instance: Instance) -> None:
        lines = []
        if self.options.demo:
            deadline = time.monotonic() + _LOGINS_SECONDS
            while not self._logins.exists() and time.monotonic() < deadline:
                self._refuse_endless_deaths()
                await asyncio.sleep(0.1)
            with contextlib.suppress(FileNotFoundError):
                lines = ["", "Sign in as:", *self._logins.read_text().rstrip().splitlines()]
        took = time.monotonic() - self.began
        print(
            "\n".join(
                [
                    "",
                    f"Countersign is ready: {instance.base_url}  ({took:.0f} s)",
                    *lines,
                    "",
                    f"Data and logs: {self.data.path}    Ctrl-C stops everything.",
                ]
            ),
            flush=True,
        )

    def _note_children(self) -> None:
        pids = {child.spec.name: child.pid for child in self.children if child.pid}
        draft = self.data.path / ".children.json"
        draft.write_text(json.dumps(pids, indent=2))
        draft.replace(self.data.path / "children.json")

    async def _stop_everything(self) -> None:
        await asyncio.gather(*(c.stop() for c in self.children if not c.spec.is_service))
        for service in reversed([c for c in self.children if c.spec.is_service]):
            await service.stop()
        self.data.forget_instance()
        (self.data.path / "children.json").unlink(missing_ok=True)
        self.data.unlock()


def _brief(answer: Answer) -> str:
    return f"{answer.status} {answer.body[:300]}".strip()


def _say(sentence: str) -> None:
    print(sentence, flush=True)
