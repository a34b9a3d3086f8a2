"""Commands where no instance runs say so, at once, and what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "command",
    [
        ["check_ledger"],
        ["catalogue", "export"],
        ["create_api_key", "--name", "x", "--environment", "test", "--scopes", "operations:read"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_without_an_instance_says_what_to_do(tmp_path: Path, command: list[str]) -> None:
    away = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "COUNTERSIGN_KEYRING")
    environ = {name: value for name, value in os.environ.items() if name not in away}
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=environ | {"DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert f"No instance of Countersign runs in {tmp_path}" in done.stderr
    assert "make run" in done.stderr
    assert "Traceback" not in done.stderr
