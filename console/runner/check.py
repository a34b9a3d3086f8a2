"""`make check`: every static check, side by side; the output of those that fail, and a table.

Each is an ordinary command that can be run by hand (`--list` prints them).
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("operations", "approvals", "reconcilers", "console", "crashlab", "bench", "tests")
# No check connects to anything; commands that load the settings get throw-away ones.
_SETTINGS = {
    "COUNTERSIGN_MODE": "local",
    "SECRET_KEY": "only-for-checks-" + "0123456789abcdef" * 3,
    "COUNTERSIGN_KEYRING": "Y2hlY2tzLWNoZWNrcy1jaGVja3MtY2hlY2tzLWNoZWM=",
    "DATABASE_URL": "postgresql:///nothing?host=/nowhere",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "DATABASE_POOL_SIZE": "0",
    "DATA_DIR": os.path.join(tempfile.gettempdir(), "countersign-check-needs-no-data"),
}
_PRODUCTION = {"COUNTERSIGN_MODE": "production", "COUNTERSIGN_ORIGIN": "https://c.example.com"}


@dataclass(frozen=True)
class Check:
    """A command, and the settings it differs by."""

    name: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)


def checks() -> list[Check]:
    """What is checked, the slowest first."""
    python = sys.executable
    scripts = Path(python).parent
    sources = [name for name in _SOURCES if (ROOT / name / "__init__.py").exists()]
    sdk = next((d for d in ("sdk/src/countersign", "sdk/countersign") if (ROOT / d).is_dir()), "")
    manage = [python, "-W", "ignore::RuntimeWarning", str(ROOT / "manage.py")]
    templates = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("templates/**/*.html"))
    found = [
        Check("types", [python, "-m", "mypy", *sources, *([sdk] if sdk else [])]),
        Check("lint", [str(scripts / "ruff"), "check", "--quiet", "."]),
        Check("format", [str(scripts / "ruff"), "format", "--check", "--quiet", "."]),
        Check("imports", [str(scripts / "lint-imports"), "--no-cache"]),
        Check("migrations", [*manage, "makemigrations", "--check", "--dry-run"]),
        Check("settings", [*manage, "check"]),
        Check("deployment", [*manage, "check", "--deploy", "--fail-level", "WARNING"], _PRODUCTION),
    ]
    if templates:
        djade = [str(scripts / "djade"), "--check", "--target-version", "6.1", *templates]
        found.append(Check("templates", djade))
    return found


def _run(check: Check) -> tuple[Check, float, int, str]:
    began = time.monotonic()
    done = subprocess.run(
        check.argv,
        cwd=ROOT,
        env=os.environ | _SETTINGS | check.env,
        capture_output=True,
        text=True,
        check=False,
    )
    return check, time.monotonic() - began, done.returncode, done.stdout + done.stderr


def main() -> int:
    """Run them; 0 when all pass."""
    if "--list" in sys.argv:
        for check in checks():
            print(f"{check.name:<12}", " ".join(check.argv))
        return 0
    failed = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        for check, seconds, code, output in pool.map(_run, checks()):
            if code:
                failed += 1
                print(f"── {check.name} ──\n{output.strip()}\n")
            print(f"{'FAILED' if code else 'ok':<7}{check.name:<12}{seconds:5.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
