"""The command line behind `make run`."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from console import env
from console.runner.datadir import AlreadyRunning
from console.runner.ports import PortTaken
from console.runner.postgres import DataOfAnotherVersion, ServiceFailed
from console.runner.spawn import end_with_parent
from console.runner.supervisor import BootFailed, Options, Supervisor

_REFUSALS = (
    AlreadyRunning,
    BootFailed,
    DataOfAnotherVersion,
    ImproperlyConfigured,
    PortTaken,
    ServiceFailed,
)


def _yes_or_no(word: str) -> bool:
    if word not in {"0", "1"}:
        raise argparse.ArgumentTypeError(f"{word!r} is neither 0 nor 1")
    return word == "1"


def _port(word: str) -> int:
    if not word.isdigit() or int(word) > 65535:
        raise argparse.ArgumentTypeError(f"{word!r} is no port")
    return int(word)


def main() -> int:
    """Run the product in the foreground; 0 after a clean stop, 1 when it could not start."""
    parser = argparse.ArgumentParser(prog="make run", description=__doc__)
    parser.add_argument("--port", type=_port, default=8000, help="0: any free port")
    parser.add_argument("--data-dir", type=Path, default=Path(".data"))
    parser.add_argument("--demo", type=_yes_or_no, default=True, metavar="0|1")
    parser.add_argument(
        "--die-with-parent", action="store_true", help="stop when the calling process is gone"
    )
    arguments = parser.parse_args()
    if arguments.die_with_parent:
        end_with_parent(signal.SIGTERM)
    try:
        options = Options(
            port=arguments.port,
            data_dir=arguments.data_dir,
            demo=arguments.demo,
            host=env.text("COUNTERSIGN_BIND", "127.0.0.1"),
            web_processes=env.integer("WEB_CONCURRENCY", 2, at_least=1),
            worker_threads=env.integer("WORKER_CONCURRENCY", 8, at_least=1),
        )
        return asyncio.run(_supervise(options))
    except _REFUSALS as refusal:
        print(f"Countersign did not start: {refusal}", file=sys.stderr, flush=True)
        return 1


async def _supervise(options: Options) -> int:
    return await Supervisor(options).run()


if __name__ == "__main__":
    sys.exit(main())
