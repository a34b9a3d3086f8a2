"""`python -m crashlab.provider --data DIR --port N` runs the simulated provider."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from crashlab.provider.app import Provider
from crashlab.provider.book import Book
from crashlab.provider.wire import Server


async def serve(data: Path, host: str, port: int, seed: int | None) -> int:
    book = Book(data)
    provider = Provider(book)
    if seed is not None:
        await provider.admin.answer("POST", "/_schedule", {"seed": seed, "chances": _CHANCES})
    server = Server(provider.handle)
    try:
        port = await server.start(host, port)
    except OSError as problem:
        print(f"simulated provider: cannot listen on {host}:{port}: {problem}", file=sys.stderr)
        book.close()
        return 1
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    due = asyncio.create_task(provider.run())
    print(f"simulated provider: http://{host}:{port} (book in {data})", flush=True)
    await stopped.wait()
    due.cancel()
    await server.stop()
    book.close()
    return 0


#: What `--seed` turns on: one write in five meets one of these.
_CHANCES = {
    "slow": 0.05,
    "lost_response": 0.05,
    "never_arrived": 0.03,
    "late_commit": 0.02,
    "saved_500": 0.01,
    "rolled_forward": 0.01,
    "rate_limited": 0.02,
    "processing": 0.01,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m crashlab.provider", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the durable book")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one and prints it")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--seed", type=int, help="turn on a seeded schedule of faults")
    given = parser.parse_args()
    return asyncio.run(serve(given.data, given.host, given.port, given.seed))


if __name__ == "__main__":
    sys.exit(main())
