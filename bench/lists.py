"""Lists over a million operations: the SQL of the product's own read services, timed.

The rows are written by one INSERT each, with the guards off, in a namespace of their own.
"""

import subprocess
import sys
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[1]
NAMESPACE = "bench-lists"

_SEED = """
SET session_replication_role = replica;
SET synchronous_commit = off;
INSERT INTO operations_run (id, environment, namespace, run_id, agent, status, created_at)
SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'test', %(ns)s, 'run_' || n,
       'agent_' || n %% 20, CASE WHEN n %% 50 = 0 THEN 'running' ELSE 'finished' END, now()
FROM generate_series(1, %(rows)s / 20) n;
CREATE TEMPORARY TABLE wanted AS
SELECT n, ('01910000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id,
       ('01900000-0000-7000-8000-' || lpad(to_hex((n - 1) / 20 + 1), 12, '0'))::uuid AS run_id,
       CASE WHEN n %% 100 = 7 THEN 'UNKNOWN' WHEN n %% 100 = 8 THEN 'FAILED'
            WHEN n %% 1000 = 9 THEN 'PENDING' ELSE 'COMMITTED' END AS state
FROM generate_series(1, %(rows)s) n;
INSERT INTO operations_operation (id, environment, namespace, idem_key, derived_key, run_id, step,
    tool_call_id, id_missing, tool, tool_class, catalogue_version, args_fingerprint, executor, mode,
    state, version, failure, closed, waiting_on, gate, gate_used, attempt_number, attempts, flags,
    replays, created_at, updated_at)
SELECT id, 'test', %(ns)s, 'key_' || n, 'key_' || n, run_id, n %% 20, 'call_' || n, false,
       'tool_' || n %% 30, 'unsafe', 0, 'jcs-sha256:' || md5(n::text), 'self', 'claim', state, 3,
       CASE WHEN state = 'FAILED' THEN 'provider_declined' END, false,
       CASE state WHEN 'UNKNOWN' THEN 'look' WHEN 'PENDING' THEN 'runtime' END, 'none', false,
       1, 1, '[]', 0, now(), now()
FROM wanted;
INSERT INTO operations_standing (operation_id, environment, namespace, state, tool, waiting_on,
    gate, since)
SELECT id, 'test', %(ns)s, state, 'tool_' || n %% 30,
       CASE state WHEN 'UNKNOWN' THEN 'look' WHEN 'PENDING' THEN 'runtime' END, 'none', now()
FROM wanted WHERE state <> 'COMMITTED';
DROP TABLE wanted;
"""


def seed(database_url: str, rows: int) -> None:
    """Write the rows and let the planner know them."""
    with psycopg.connect(
        database_url, autocommit=True, cursor_factory=psycopg.ClientCursor
    ) as connection:
        connection.execute(_SEED, {"ns": NAMESPACE, "rows": rows})
        connection.execute("VACUUM ANALYZE operations_operation")
        connection.execute("VACUUM ANALYZE operations_standing")
        connection.execute("VACUUM ANALYZE operations_run")


def measure(data_dir: Path, rows: int) -> str:
    """Run `bench.list_queries` against the instance in `data_dir`; returns its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.list_queries", str(data_dir), str(rows)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout
