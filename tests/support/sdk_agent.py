"""An agent as a process of its own, to be killed, stopped and doubled by tests.

`python -m tests.support.sdk_agent '<json>'` makes one guarded call and prints what came of it as
JSON. `mishap`: `killed_after_effect`, `killed_before_send`, `stopped_before_send` (SIGSTOP in the
effect), `stopped_after_claim` (SIGSTOP when the claim's answer is in).
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import countersign
import httpx
from countersign import ClearedCall, Client

ROOT = Path(__file__).resolve().parents[2]
ARGS = {"to": "ada@example.com", "subject": "hello", "body": "there"}
CHARGE = {"amount": 2500, "currency": "usd", "customer": "cus_1"}


class StoppingTransport(httpx.HTTPTransport):
    """Stops the process as soon as the first claim is answered."""

    stopped = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if request.url.path == "/api/v1/operations" and not self.stopped:
            self.stopped = True
            response.read()
            _announce("stopping")
            os.kill(os.getpid(), signal.SIGSTOP)
        return response


def effect_of(given: dict[str, Any], http: httpx.Client) -> Any:
    def effect(cleared: ClearedCall) -> Any:
        mishap = given.get("mishap")
        if mishap == "killed_before_send":
            os.kill(os.getpid(), signal.SIGKILL)
        if mishap == "stopped_before_send":
            _announce("stopping")
            os.kill(os.getpid(), signal.SIGSTOP)
            cleared.ensure_permit()
        sent = _send(given["tool"], cleared, http)
        if mishap == "killed_after_effect":
            os.kill(os.getpid(), signal.SIGKILL)
        return sent

    return effect


def _send(tool: str, cleared: ClearedCall, http: httpx.Client) -> Any:
    lab = {"X-Lab-Intent": cleared.idem_key}
    if tool != "stripe.charge":
        return http.post("/mail/send", json=cleared.args, headers=lab).raise_for_status().json()
    card = {"confirm": "true", "payment_method": "pm_card_visa"}
    form = cleared.args | card | {"metadata[idem_key]": cleared.idem_key}
    headers = lab | {"Idempotency-Key": cleared.idem_key}
    made = http.post("/v1/payment_intents", data=form, headers=headers).raise_for_status().json()
    return countersign.Done({"id": made["id"]}, made["id"], made["status"])


def main() -> None:
    given = json.loads(sys.argv[1])
    transport = StoppingTransport() if given.get("mishap") == "stopped_after_claim" else None
    bearer = {"Authorization": "Bearer sk_test_sim"}
    with (
        httpx.Client(base_url=given["provider"], headers=bearer, timeout=2) as http,
        Client(
            given["console"],
            given["key"],
            agent="tests",
            spool_dir=given.get("spool"),
            transport=transport,
        ) as client,
    ):
        options = given.get("options", {})
        args = given.get("args") or (CHARGE if given["tool"] == "stripe.charge" else ARGS)
        call = (given["run"], 1, "call_1", given["tool"], args, effect_of(given, http))
        try:
            done = client.guard(*call, **options)
            told = {"result": done.result, "replayed": done.replayed, "reported": done.reported}
        except Exception as error:  # noqa: BLE001 -- the test asks which
            told = {"error": type(error).__name__, "says": str(error)}
        _announce(**told)


def _announce(state: str = "done", **told: Any) -> None:
    print(json.dumps({"state": state, **told}), flush=True)


class AgentProcess:
    """The other side: starts one, waits for what it says, continues or outlives it."""

    def __init__(self, **given: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.sdk_agent", json.dumps(given)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"it ended with {self._process.wait()} and said nothing"
        told: dict[str, Any] = json.loads(line)
        return told

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def ends(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self._process.wait(timeout=60)

    def end(self) -> None:
        """Leaves nothing behind, stopped or not."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    main()
