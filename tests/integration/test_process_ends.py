"""A process with a connection pool ends when its work is done."""

import os
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import django
django.setup()
from django.db import connection
with connection.cursor() as cur:
    cur.execute("SELECT 1")
print("done", flush=True)
"""


def test_a_process_with_a_pool_does_not_wait_for_frozen_threads() -> None:
    environment = os.environ | {"DATABASE_POOL_SIZE": "4"}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=Path(__file__).resolve().parents[2],
        env=environment | {"DJANGO_SETTINGS_MODULE": "console.settings"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        done = time.monotonic()
        _, told = process.communicate(timeout=60)
        # The finaliser gave up on four threads, five seconds each.
        assert time.monotonic() - done < 5
        assert "couldn't stop thread" not in told
