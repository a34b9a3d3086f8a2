"""Bad luck on order: deaths of this process at the windows, and faults at the provider."""

import os
import signal
from pathlib import Path
from typing import Any

import httpx
from countersign import ClearedCall

#: mishap -> what the simulated provider does to the request (see crashlab/provider/README.md).
AT_PROVIDER: dict[str, dict[str, Any]] = {
    "timeout_after_success": {"hold_seconds": 8},
    "lost_response": {"drop": "after"},
    "late_commit": {"commit_after_seconds": 25, "drop": "before"},
    "never_arrived": {"drop": "before"},
    "saved_500": {"error_500": "none"},
    "rolled_forward": {"error_500": "later", "later_seconds": 40},
    "rate_limited": {"status": 429, "retry_after": 1},
    "processing": {"processing": True, "processing_seconds": 90},
}


class Mishaps:
    """Each strikes once for each call: what was survived before is not met again."""

    def __init__(self, folder: Path, provider: str) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._provider = provider

    def before(self, mishap: str | None, cleared: ClearedCall) -> None:
        """Right before the bytes leave."""
        if mishap == "killed_before_send":
            self._die_once(cleared)
        if mishap in AT_PROVIDER and self._first_time(cleared):
            # By what the request will carry: the marker, or (mail) the address.
            match = {"method": "POST", "contains": _sign_of(cleared)}
            rule = {"match": match, "action": AT_PROVIDER[mishap], "times": 1}
            httpx.post(f"{self._provider}/_faults", json=rule, timeout=5).raise_for_status()

    def after(self, mishap: str | None, cleared: ClearedCall) -> None:
        """The effect happened and nobody has been told."""
        if mishap == "killed_after_effect":
            self._die_once(cleared)

    def _die_once(self, cleared: ClearedCall) -> None:
        if self._first_time(cleared):
            os.kill(os.getpid(), signal.SIGKILL)

    def _first_time(self, cleared: ClearedCall) -> bool:
        try:
            descriptor = os.open(
                self._folder / cleared.idem_key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600
            )
        except FileExistsError:
            return False
        os.fsync(descriptor)
        os.close(descriptor)
        return True


def _sign_of(cleared: ClearedCall) -> str:
    return cleared.idem_key if cleared.tool != "mail.send" else str(cleared.args["to"])
