"""DATA_DIR: what one local instance keeps on disk, and the note that says where it runs.

``instance.json`` exists while an instance runs and names its services, so that ``manage.py`` with
the same DATA_DIR reaches it. Whether it is true is not judged by process ids, which get reused:
the running supervisor holds a lock on ``instance.lock``, which the kernel drops however it dies.
"""

import base64
import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Self


class AlreadyRunning(Exception):
    """Another supervisor holds this DATA_DIR."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """Where a running instance's parts are: URLs, and the supervisor's process id."""

    pid: int
    port: int
    base_url: str
    database_url: str
    redis_url: str
    provider_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """What a local instance signs and encrypts with; made once, kept for the data's life."""

    secret_key: str
    keyring: str

    @classmethod
    def generate(cls) -> Self:
        """Make a new signing key and one new Fernet key."""
        fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        return cls(secret_key=secrets.token_urlsafe(50), keyring=fernet)


class DataDir:
    """The folder's layout."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().resolve()
        self.logs = self.path / "logs"
        self._lock: IO[str] | None = None

    @classmethod
    def from_environment(cls) -> Self:
        """The folder that DATA_DIR names; ``.data`` beside manage.py when it names none."""
        named = os.environ.get("DATA_DIR", "").strip()
        return cls(named or Path(__file__).resolve().parents[2] / ".data")

    def create(self) -> None:
        """Make the folder, readable by its owner alone."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs.mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> None:
        """Claim the folder for this process's life, or raise :class:`AlreadyRunning`."""
        handle = (self.path / "instance.lock").open("a+")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            other = self.instance()
            where = f" at {other.base_url} (process {other.pid})" if other else ""
            raise AlreadyRunning(f"an instance already runs in {self.path}{where}") from None
        self._lock = handle
        self.forget_instance()

    def unlock(self) -> None:
        """Let the folder go; the process's end does it too."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def is_running(self) -> bool:
        """Does a supervisor hold this folder now?"""
        try:
            with (self.path / "instance.lock").open("r+") as handle:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def instance(self) -> Instance | None:
        """What the note says; None when there is none, or when it was written by other code."""
        try:
            note = json.loads((self.path / "instance.json").read_text())
            return Instance(**{f.name: note[f.name] for f in fields(Instance)})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def note_instance(self, instance: Instance) -> None:
        """Write the note, whole or not at all; it holds the Redis password, so owner only."""
        self._write("instance.json", asdict(instance))

    def forget_instance(self) -> None:
        """Remove the note."""
        (self.path / "instance.json").unlink(missing_ok=True)

    def secrets(self) -> Secrets:
        """Read the instance's secrets, making them on first use.

        Two processes may come here first at once: the file is linked into place only where none
        is, and both then read what is there.
        """
        path = self.path / "secrets.json"
        if not path.exists():
            self.create()
            draft = self._write(f"secrets.{secrets.token_hex(8)}", asdict(Secrets.generate()))
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return Secrets(**json.loads(path.read_text()))

    def remembered_ports(self) -> dict[str, int]:
        """Ports of an earlier run, which data may still name (a provider account's base URL)."""
        try:
            return {str(k): int(v) for k, v in json.loads(self._ports.read_text()).items()}
        except (FileNotFoundError, ValueError, AttributeError):
            return {}

    def remember_ports(self, ports: dict[str, int]) -> None:
        """Keep the ports for the next run."""
        self._write(self._ports.name, ports)

    @property
    def _ports(self) -> Path:
        return self.path / "ports.json"

    def _write(self, name: str, content: object) -> Path:
        path = self.path / name
        draft = path.with_name(f".{name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            json.dump(content, out, indent=2)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
        return path
