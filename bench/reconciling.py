"""The reconciler's speed: look-ups a second, a limit used to the full, and one window for many.

One engine in a process of its own, on services of its own, against the simulated provider. CPU is
the engine's own, so that a busy machine does not hide what a settled operation costs.
"""

import json
import subprocess
import sys
import tempfile
from bisect import bisect_left
from pathlib import Path
from typing import Any

from bench.table import Row
from tests.support.machine_room import ROOT, MachineRoom

_LATENCY_MS = 50
_LIMIT = 20
_GOALS = {"lookups": 800.0, "share": 0.9, "window_seconds": 30.0}


def measure(count: int) -> list[Row]:
    """`count` operations that one window settles; a part of that for the other two."""
    with tempfile.TemporaryDirectory(prefix="countersign-bench-") as folder:
        room = MachineRoom(Path(folder) / "room").start()
        try:
            return [
                *_by_id(room, max(200, count // 5)),
                *_limited(room, max(100, count // 25)),
                *_one_window(room, count),
            ]
        finally:
            room.stop()


def _by_id(room: MachineRoom, count: int) -> list[Row]:
    """Class A, one request for each operation, each answer 50 ms late."""
    seen = _run(room, count=count, lookup="get", latency_ms=_LATENCY_MS, seconds=120)
    return [
        Row(
            what=f"look-ups of a provider that takes {_LATENCY_MS} ms",
            value=seen["looks"] / seen["working_seconds"],
            unit="/s",
            goal=_GOALS["lookups"],
            note=f"{count:,} settled one by one in {seen['working_seconds']:.1f} s,"
            f" {_cpu_each(seen)} CPU each",
            details=seen,
        )
    ]


def _limited(room: MachineRoom, count: int) -> list[Row]:
    """The same under 20 a second: how near it comes, and whether it is ever refused."""
    seen = _run(room, count=count, lookup="get", limit=_LIMIT, seconds=180)
    moments = sorted(row["at"] for row in seen["requests"] if row["path"].count("/") == 3)
    pace = (len(moments) - 1) / (moments[-1] - moments[0]) if len(moments) > 1 else 0.0
    most = max((_within_a_second(moments, number) for number in range(len(moments))), default=0)
    seen.pop("requests")
    return [
        Row(
            what=f"share of a limit of {_LIMIT}/s that is used",
            value=pace / _LIMIT,
            unit="",
            goal=_GOALS["share"],
            note=f"{pace:.2f}/s; at most {most} in any second, refused with 429: {seen['429']}",
            details=seen,
        )
    ]


def _one_window(room: MachineRoom, count: int) -> list[Row]:
    """Every one is on one list, read once."""
    seen = _run(room, count=count, lookup="list", seconds=300)
    pages = sum(row["path"] == "/v1/payment_intents" for row in seen.pop("requests"))
    return [
        Row(
            what=f"{count:,} unknown settled by one list window",
            value=seen["working_seconds"],
            unit="s",
            goal=_GOALS["window_seconds"] * count / 10_000,
            at_least=False,
            note=f"{count / seen['working_seconds']:,.0f}/s, {pages} pages read,"
            f" {_cpu_each(seen)} CPU each",
            details=seen,
        )
    ]


def _within_a_second(moments: list[float], number: int) -> int:
    return bisect_left(moments, moments[number] + 1.0) - number


def _cpu_each(seen: dict[str, Any]) -> str:
    return f"{seen['cpu'] / max(seen['looks'], 1) * 1000:.2f} ms"


def _run(room: MachineRoom, **job: Any) -> dict[str, Any]:
    room.simulator.clear_faults()
    before = len(room.simulator.requests())
    done = subprocess.run(
        [sys.executable, "-m", "bench.settling"],
        cwd=ROOT,
        env=room.environment(),
        input=json.dumps(job | {"provider": room.simulator.url}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the settling job failed:\n{done.stderr[-3000:]}")
    seen: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if seen["left"]:
        raise RuntimeError(f"{seen['left']} of {job['count']} are still unknown: {seen}")
    reads = [row for row in room.simulator.requests()[before:] if row["method"] == "GET"]
    seen["429"] = sum(row["status"] == 429 for row in reads)
    if job["lookup"] != "get" or "limit" in job:
        seen["requests"] = [{"at": row["at"], "path": row["path"]} for row in reads]
    return seen
