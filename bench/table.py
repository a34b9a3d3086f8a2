"""The table that a person reads."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured figure beside its goal. `at_least` says which side of the goal is good."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = True
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def as_dict(self) -> dict[str, Any]:
        """For results.json."""
        return {**asdict(self), "is_met": self.is_met}


def render(rows: Sequence[Row], noise: dict[str, Any]) -> str:
    """Plain text, with the machine's noise above it."""
    lines = [
        f"{noise['cores']} cores, load average before: {noise['load_average_before']:.2f}",
        f"equal work on one core spreads by {noise['spin_spread']:.0%}",
        f"fsync p50 {noise['fsync_ms_p50']:.2f} ms, p95 {noise['fsync_ms_p95']:.2f} ms",
        "",
    ]
    cells = [("what", "measured", "goal", "", "note")]
    for row in rows:
        goal = "" if row.goal is None else f"{'≥' if row.at_least else '≤'} {row.goal:g} {row.unit}"
        verdict = {True: "met", False: "NOT MET", None: ""}[row.is_met]
        cells.append((row.what, f"{row.value:,.1f} {row.unit}", goal, verdict, row.note))
    widths = [max(len(cell[column]) for cell in cells) for column in range(5)]
    lines += [
        "  ".join(text.ljust(width) for text, width in zip(cell, widths, strict=True))
        for cell in cells
    ]
    return "\n".join(line.rstrip() for line in lines)
