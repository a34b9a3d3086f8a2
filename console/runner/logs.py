"""Children's output: every line into DATA_DIR/logs, errors also onto the terminal."""

import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

_KEEP_BYTES = 5_000_000
# After an error line its traceback follows; a line that opens with a time or a level ends it.
_NEW_RECORD = re.compile(r"^(\d{4}-\d\d-\d\d|\d+:[A-Z] |\[\d{4}|(DEBUG|INFO|WARNING)\b)")
_MOST_LINES, _WINDOW_SECONDS = 60, 10.0

PYTHON_ERRORS = re.compile(r"\b(ERROR|CRITICAL)\b|^Traceback ")
# A constraint that says no is Postgres's ERROR and our ordinary course of business.
SERVER_ERRORS = re.compile(
    r"\b(PANIC|FATAL CONFIG)\b|could not (access|extend|fsync|open|read|write)|No space left"
)


class ChildLog:
    """One child's log file, and what of it deserves the terminal."""

    def __init__(self, name: str, folder: Path, errors: re.Pattern[str]) -> None:
        self.name = name
        self.path = folder / f"{name}.log"
        self.errors = errors
        self.quiet = False
        self._file: BinaryIO = self.path.open("ab")
        self._rest = b""
        self._inside_error = False
        self._shown: list[float] = []

    def feed(self, chunk: bytes) -> None:
        """Take output as it comes, in pieces of any size."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > 64_000:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._take(line)
        self._file.flush()
        if self._file.tell() > _KEEP_BYTES:
            self._rotate()

    def note(self, sentence: str) -> None:
        """Write a line of the supervisor's own into the child's log."""
        self._file.write(f"{_now()} supervisor: {sentence}\n".encode())
        self._file.flush()

    def tail(self, lines: int = 20) -> str:
        """The last lines, for the report of a death."""
        return "\n".join(self.path.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Write what is left."""
        if self._rest:
            self.feed(b"\n")
        self._file.close()

    def _take(self, line: bytes) -> None:
        self._file.write(f"{_now()} ".encode() + line + b"\n")
        text = line.decode(errors="replace")
        if self.errors.search(text):
            self._inside_error = True
        elif _NEW_RECORD.match(text):
            self._inside_error = False
        if self._inside_error and not self.quiet:
            self._show(text)

    def _show(self, text: str) -> None:
        now = time.monotonic()
        self._shown = [at for at in self._shown if now - at < _WINDOW_SECONDS]
        if len(self._shown) == _MOST_LINES:
            text = f"... more in {self.path}"
        if len(self._shown) <= _MOST_LINES:
            self._shown.append(now)
            print(f"{self.name} | {text}", file=sys.stderr, flush=True)

    def _rotate(self) -> None:
        self._file.close()
        self.path.replace(self.path.with_suffix(".log.1"))
        self._file = self.path.open("ab")


def _now() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
