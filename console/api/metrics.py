"""Counters of one process, in Prometheus text format."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

_BUCKETS: Final = (0.005, 0.01, 0.02, 0.04, 0.1, 0.25, 1.0, 5.0, 35.0)


class Metrics:
    """What was answered, how often and how fast. Touched from the event loop only."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, int], int] = {}
        self._took: dict[tuple[str, str], list[float]] = {}

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        answer = (method, route, status)
        self._answers[answer] = self._answers.get(answer, 0) + 1
        row = self._took.get(answer[:2])
        if row is None:
            row = self._took[answer[:2]] = [0.0] * (len(_BUCKETS) + 2)
        row[bisect_left(_BUCKETS, seconds)] += 1
        row[-1] += seconds

    def expose(self, gauges: Mapping[str, float]) -> bytes:
        """The text that Prometheus scrapes."""
        lines = ["# TYPE countersign_http_requests_total counter"]
        for (method, route, status), count in sorted(self._answers.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"countersign_http_requests_total{{{labels}}} {count}")
        lines.append("# TYPE countersign_http_request_duration_seconds histogram")
        for (method, route), row in sorted(self._took.items()):
            lines += _histogram(f'method="{method}",route="{route}"', row)
        for name, value in gauges.items():
            lines += [f"# TYPE countersign_{name} gauge", f"countersign_{name} {value:g}"]
        return "\n".join([*lines, ""]).encode()


def _histogram(labels: str, row: list[float]) -> list[str]:
    name = "countersign_http_request_duration_seconds"
    lines, total = [], 0.0
    for bound, count in zip((*_BUCKETS, "+Inf"), row[:-1], strict=True):
        total += count
        lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {total:g}')
    return [*lines, f"{name}_sum{{{labels}}} {row[-1]:.6f}", f"{name}_count{{{labels}}} {total:g}"]
