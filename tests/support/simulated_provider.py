"""The simulated provider as a process of its own, with its levers and its book at hand."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

REPOSITORY = Path(__file__).resolve().parents[2]


class SimulatedProvider:
    """`start()` serves on a free port; after `kill()` it `start()`s again on the same one."""

    secret_key = "sk_test_sim"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self._http: httpx.Client | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "SimulatedProvider":
        arguments = ["--data", str(self.folder), "--port", str(self.port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crashlab.provider", *arguments],
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.port = int(line.split(" (")[0].rpartition(":")[2])
        self._http = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        return self

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        assert self._process is not None
        assert self._http is not None
        self._process.send_signal(how)
        self._process.wait(timeout=10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._http.close()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self.kill(signal.SIGTERM)

    def fault(
        self,
        action: dict[str, Any],
        *,
        nth: int | list[int] | None = None,
        times: int | None = None,
        **match: Any,
    ) -> None:
        """Adds a rule: `fault({"drop": "after"}, times=1, method="POST")`."""
        rule = {"match": match, "action": action, "nth": nth, "times": times}
        self._ask("POST", "/_faults", rule)

    def clear_faults(self) -> None:
        self._ask("DELETE", "/_faults")

    def settings(self, **values: Any) -> None:
        self._ask("POST", "/_settings", values)

    def ledger(self, **filters: str) -> dict[str, Any]:
        """`{"count", "effects", "per_intent", "duplicates"}`."""
        return self._ask("GET", "/ledger", params=filters)

    def requests(self) -> list[dict[str, Any]]:
        journal: list[dict[str, Any]] = self._ask("GET", "/_requests")["requests"]
        return journal

    def wait_for_effects(self, count: int, *, seconds: float = 10, **filters: str) -> None:
        deadline = time.monotonic() + seconds
        while (seen := self.ledger(**filters)["count"]) != count:
            assert time.monotonic() < deadline, f"{seen} effects, not {count}"
            time.sleep(0.02)

    def _ask(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        assert self._http is not None
        response = self._http.request(method, path, json=body, **more)
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        return document
