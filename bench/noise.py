"""How quiet the machine is: without this, a figure says little."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.generators import percentile


def measure(folder: Path) -> dict[str, Any]:
    """Spread of equal work on one core, time of an fsync where the data is, load, cores."""
    spins = [_spin() for _ in range(30)]
    syncs = _fsyncs(folder, 200)
    middle = percentile(spins, 0.5)
    return {
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg()[0],
        "spin_ms_p50": middle,
        "spin_spread": (percentile(spins, 0.95) - percentile(spins, 0.05)) / middle,
        "fsync_ms_p50": percentile(syncs, 0.5),
        "fsync_ms_p95": percentile(syncs, 0.95),
    }


def _spin() -> float:
    began = time.perf_counter()
    total = 0
    for number in range(300_000):
        total += number
    return (time.perf_counter() - began) * 1000


def _fsyncs(folder: Path, times: int) -> list[float]:
    took = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(b"x" * 8192)
            file.flush()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return took
