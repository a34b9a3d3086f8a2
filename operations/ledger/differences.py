"""What a check found: one thing that does not fit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Where it is, what the events or the signed tree say, what stands there."""

    where: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, found {self.found}."
