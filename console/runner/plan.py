"""Which processes make up the product on one machine."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from console.runner.children import ChildSpec
from console.runner.logs import SERVER_ERRORS
from console.runner.postgres import EmbeddedPostgres
from console.runner.valkey import EmbeddedValkey

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the children need to know."""

    data_dir: Path
    socket_fd: int
    env: Mapping[str, str]
    web_processes: int
    worker_threads: int
    provider_port: int
    demo: bool


def service(embedded: EmbeddedPostgres | EmbeddedValkey) -> ChildSpec:
    """An embedded server as a child."""
    return ChildSpec(
        name=embedded.name,
        argv=embedded.argv,
        env=os.environ,
        stop_signal=embedded.stop_signal,
        stop_seconds=embedded.stop_seconds,
        preexec=embedded.preexec,
        is_service=True,
        errors=SERVER_ERRORS,
    )


def product(plan: Plan) -> list[ChildSpec]:
    """The product's processes, in the order of their start; they stop in the reverse order."""
    specs = [
        _python(
            plan,
            f"web-{number}",
            ["-m", "console.runner.web", "--fd", str(plan.socket_fd)],
            pass_fds=(plan.socket_fd,),
        )
        for number in range(1, plan.web_processes + 1)
    ]
    celery = "-m celery -A console.celery --quiet"
    # Threads, not forks: the tasks wait for networks, and a killed worker leaves no orphans.
    worker = (
        f"{celery} worker --queues reconcile,notify,default --pool threads"
        f" --concurrency {plan.worker_threads} --hostname local@%h --loglevel INFO"
        " --without-gossip --without-mingle"
    )
    # The schedule is static, so beat keeps no file that a crash could spoil.
    beat = f"{celery} beat --scheduler celery.beat:Scheduler --pidfile= --loglevel INFO"
    specs += [
        _python(plan, "sequencer", manage("sequencer")),
        _python(plan, "worker", worker.split()),
        _python(plan, "beat", beat.split()),
    ]
    if plan.demo:
        provider = ["-m", "crashlab.provider", "--data", str(plan.data_dir / "provider")]
        specs += [
            _python(plan, "provider", [*provider, "--port", str(plan.provider_port)]),
            _python(plan, "demo", manage("demo"), may_finish=True),
        ]
    return specs


def manage(*words: str) -> list[str]:
    """Arguments for Python that run a management command."""
    return [str(ROOT / "manage.py"), *words]


def _python(
    plan: Plan,
    name: str,
    argv: list[str],
    *,
    pass_fds: tuple[int, ...] = (),
    may_finish: bool = False,
) -> ChildSpec:
    return ChildSpec(
        name=name,
        argv=[sys.executable, *argv],
        # Postgres shows the name in pg_stat_activity.
        env={**plan.env, "PGAPPNAME": f"countersign {name}"},
        pass_fds=pass_fds,
        may_finish=may_finish,
    )
