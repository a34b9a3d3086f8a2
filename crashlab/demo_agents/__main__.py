"""`python -m crashlab.demo_agents --console URL --key … --provider URL --seed N`: all agents.

Each is a process of its own. Some kill themselves, as the demo wants it; whatever dies is started
again a few seconds later and goes on with its unfinished runs.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crashlab.demo_agents.parents import end_with_parent
from crashlab.demo_agents.setting import KEY, PROVIDER_KEY, Setting
from crashlab.demo_agents.stories import REPERTOIRE

_RESTART_SECONDS = 4.0


@dataclass
class _Child:
    argv: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    start_at: float = field(default=0.0)

    def tend(self, environment: dict[str, str]) -> None:
        """Starts it, or notes that it died and when it is to start again."""
        if self.process is not None and self.process.poll() is not None:
            print(f"agents: {self.argv[2]} ended with {self.process.returncode}", flush=True)
            self.process = None
            self.start_at = time.monotonic() + _RESTART_SECONDS
        if self.process is None and time.monotonic() >= self.start_at:
            self.process = subprocess.Popen(self.argv, env=environment)


def supervise(setting: Setting, agents: Sequence[str]) -> None:
    """Runs until SIGTERM or SIGINT; then every agent ends first."""
    module = "crashlab.demo_agents"
    children = [
        _Child([sys.executable, "-m", f"{module}.agent", name, *setting.arguments()])
        for name in agents
        if name in REPERTOIRE
    ]
    if "legacy" in agents:
        children.append(_Child([sys.executable, "-m", f"{module}.legacy", *setting.arguments()]))
    environment = os.environ | setting.environment()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.wait(0.3):
        for child in children:
            child.tend(environment)
    running = [child.process for child in children if child.process is not None]
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    everyone = [*REPERTOIRE, "legacy"]
    parser = argparse.ArgumentParser(prog="python -m crashlab.demo_agents", description=__doc__)
    parser.add_argument("--console", required=True, help="base URL of the console")
    parser.add_argument("--key", default=os.environ.get(KEY), help=f"API key (or ${KEY})")
    parser.add_argument("--provider", required=True, help="base URL of the simulated provider")
    parser.add_argument("--provider-key", default=os.environ.get(PROVIDER_KEY, "sk_test_simdemo"))
    parser.add_argument("--state", type=Path, help="folder that outlives the agents")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--agents", nargs="*", choices=everyone, default=everyone)
    given = parser.parse_args()
    if not given.key:
        parser.error(f"--key or ${KEY} is needed")
    state = given.state or Path(tempfile.mkdtemp(prefix="countersign-demo-agents-"))
    end_with_parent()
    setting = Setting(
        given.console, given.key, given.provider, given.provider_key, state, given.seed
    )
    supervise(setting, given.agents)


if __name__ == "__main__":
    main()
