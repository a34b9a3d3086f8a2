"""A process with a connection pool closes it before its threads are frozen."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import atexit
pools = []
# Registered first, so it runs last: after everything that the apps do at the end.
atexit.register(lambda: print("closed", [pool.closed for pool in pools], flush=True))
import django
django.setup()
from django.db import connection
with connection.cursor() as cur:
    cur.execute("SELECT 1")
pools.append(connection.pool)
print("open", [not pool.closed for pool in pools], flush=True)
"""


def test_the_pool_is_closed_before_the_interpreter_ends() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=Path(__file__).resolve().parents[2],
        env=os.environ | {"DATABASE_POOL_SIZE": "4", "DJANGO_SETTINGS_MODULE": "console.settings"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout.split("\n")[:2] == ["open [True]", "closed [True]"]
    assert "couldn't stop thread" not in ended.stderr
