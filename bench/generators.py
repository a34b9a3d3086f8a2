"""Load generators as processes of their own, and what they saw put together."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_START_SECONDS = 0.7
_MOST_PER_PROCESS = 16


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where the product answers, and the key to speak with."""

    host: str
    port: int
    key: str


@dataclass(kw_only=True)
class Result:
    """What all clients together saw."""

    seconds: float
    done: int
    failed: dict[str, int] = field(default_factory=dict)
    latencies: dict[str, list[float]] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Finished units a second."""
        return self.done / self.seconds if self.seconds else 0.0

    def percentile(self, what: str, share: float) -> float:
        """A latency percentile in milliseconds; NaN where nothing was measured."""
        return percentile(self.latencies.get(what, []), share)


def percentile(values: list[float], share: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def run(target: Target, scenario: str, *, clients: int, seconds: float, **job: Any) -> Result:
    """Run `clients` keep-alive clients for `seconds`, in as few processes as do not slow them."""
    processes = max(1, -(-clients // _MOST_PER_PROCESS))
    until = time.time() + seconds + _START_SECONDS
    tag = f"b{time.time_ns():x}"
    started, first = [], 0
    for number in range(processes):
        share = clients // processes + (number < clients % processes)
        words = {
            "scenario": scenario, "host": target.host, "port": target.port, "key": target.key,
            "tag": tag, "clients": share, "first_client": first, "until": until, **job,
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.load"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append((process, json.dumps(words)))
        first += share
    for process, spec in started:
        assert process.stdin is not None
        process.stdin.write(spec)
        process.stdin.close()
    merged = Result(seconds=0.0, done=0)
    for process, _ in started:
        assert process.stdout is not None
        _merge(merged, json.loads(process.stdout.read()))
        process.wait()
    return merged


def _merge(merged: Result, seen: dict[str, Any]) -> None:
    merged.seconds = max(merged.seconds, seen["seconds"])
    merged.done += seen["done"]
    for name, count in seen["failed"].items():
        merged.failed[name] = merged.failed.get(name, 0) + count
    for name, values in seen["latencies"].items():
        merged.latencies.setdefault(name, []).extend(values)
