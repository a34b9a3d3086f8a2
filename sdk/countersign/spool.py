"""Reports that the console has not taken yet, on disk: one fsync'd file each, replayed in order."""

import contextlib
import hashlib
import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Report:
    """`outcome` and `records` are posted as they are; `disown` says that a claim whose answer never
    came was not executed, once the console can tell which attempt that was."""

    kind: str
    path: str
    body: Any


class Spool:
    """A folder of reports, or (without a folder) a list in memory that dies with the process.

    Several processes may share a folder. Reports that a living call still tries to deliver itself
    are `in hand` and not replayed by this process's relay.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._number = 0
        self._memory: dict[str, Report] = {}
        self._in_hand: set[str] = set()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(f"{folder} is not writable")

    def keep(self, report: Report) -> str:
        """Stores the report, on disk before it returns, and in hand until `release`."""
        with self._lock:
            self._number += 1
            name = f"{time.time_ns():020d}-{os.getpid()}-{self._number}.json"
            self._in_hand.add(name)
        try:
            self._store(name, report)
        except OSError:
            # No room on the disk. In memory it at least survives the console's absence.
            self._memory[name] = report
        return name

    def discard(self, name: str) -> None:
        """The console has it."""
        self._memory.pop(name, None)
        if self.folder is not None:
            (self.folder / name).unlink(missing_ok=True)
        self.release(name)

    def release(self, name: str) -> None:
        with self._lock:
            self._in_hand.discard(name)

    def refuse(self, name: str, why: str) -> None:
        """The console will never take it: put aside for a person, never deleted."""
        self._memory.pop(name, None)
        if self.folder is not None:
            aside = self.folder / "refused"
            aside.mkdir(exist_ok=True, mode=0o700)
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.folder / name, aside / name)
            (aside / f"{name}.why").write_text(why)
        self.release(name)

    def waiting(self) -> list[str]:
        """Names of what is to be replayed, oldest first."""
        with self._lock:
            in_hand = set(self._in_hand)
        names = set(self._memory)
        if self.folder is not None:
            with contextlib.suppress(FileNotFoundError):
                names |= {path.name for path in self.folder.glob("*.json")}
        return sorted(name for name in names - in_hand if not self._is_anothers(name))

    def read(self, name: str) -> Report | None:
        """The report, or None where another process delivered it meanwhile."""
        if name in self._memory:
            return self._memory[name]
        if self.folder is None:
            return None
        try:
            document = json.loads((self.folder / name).read_bytes())
            return Report(document["kind"], document["path"], document["body"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError):
            self.refuse(name, "cannot be read")
            return None

    def _store(self, name: str, report: Report) -> None:
        if self.folder is None:
            self._memory[name] = report
            return
        text = json.dumps(vars(report) | {"version": 1}, ensure_ascii=False).encode()
        draft = self.folder / f"{name}.draft"
        with open(draft, "wb", opener=_private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.folder / name)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _is_anothers(self, name: str) -> bool:
        """Whether a process that still lives wrote it a moment ago, and will deliver it itself."""
        written, pid, _ = name.removesuffix(".json").split("-")
        if int(pid) == os.getpid() or time.time_ns() - int(written) > 10e9:
            return False
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def default_folder(base_url: str, api_key: str) -> Path:
    """Apart by console and key, so that no report goes to the wrong one."""
    digest = hashlib.sha256(f"{base_url}|{api_key}".encode()).hexdigest()[:16]
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(
        os.path.expanduser("~"), ".local/state"
    )
    return Path(state) / "countersign" / digest
