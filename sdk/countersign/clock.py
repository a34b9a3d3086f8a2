"""Time for send permits: seconds that pass, too, while the machine sleeps or we are stopped."""

import sys
import time
from dataclasses import dataclass, field

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


@dataclass(frozen=True)
class Instant:
    """A moment; `elapsed()` says how long ago it was."""

    steady: float
    wall: float = field(compare=False)

    def elapsed(self) -> float:
        passed = _steady() - self.steady
        if _BOOTTIME is None and sys.platform != "darwin":
            # This clock may stand still during sleep; of the two that are left, believe the later.
            passed = max(passed, time.time() - self.wall)
        return passed


def now() -> Instant:
    return Instant(_steady(), time.time())


def _steady() -> float:
    if _BOOTTIME is not None:
        return time.clock_gettime(_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True)
class Countdown:
    """`seconds` that began at `start`. A permit's are counted from before it was asked for."""

    start: Instant
    seconds: float

    def left(self) -> float:
        return self.seconds - self.start.elapsed()
