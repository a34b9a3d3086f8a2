"""A customer's shop on a real Postgres, with its levers."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from psycopg import sql

from reconcilers import registry
from reconcilers.evidence import Look
from reconcilers.providers.base import AccountAccess
from tests.providers.bench import Bench, access_of, ask, question
from tests.support.sql_cluster import SqlCluster
from tests.support.tcp_proxy import TcpProxy, localhost_certificate

FIXTURES = Path(registry.__file__).parent / "providers" / "sql" / "fixtures"
SQL = registry.provider_of("sql")
EXAMPLE = yaml.safe_load((FIXTURES / "account.yaml").read_text())
#: The query reads through it, so that a test can bend what there is to be seen.
_SEEN = "CREATE VIEW seen AS SELECT * FROM payments"
_SLOW = """
CREATE FUNCTION slow_payments() RETURNS SETOF payments LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN PERFORM pg_sleep(30); RETURN QUERY SELECT * FROM payments; END $$
"""
_TLS, _PEM = localhost_certificate()
ROLES = {"countersign_reads": "password", "countersign_buries": "tombstone_password"}


class SqlBench(Bench):
    kind = "sql"
    object_kind = "row"
    absent_id = "999999999"
    cannot_happen = {"flood": "the query is wrapped, and gives a few rows at most"}

    def __init__(self, cluster: SqlCluster) -> None:
        self.cluster = cluster
        self.database = f"shop_{uuid4().hex[:8]}"
        with cluster.admin("postgres") as admin:
            for role, field in ROLES.items():
                admin.execute(
                    sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                        sql.Identifier(role), sql.Literal(EXAMPLE[field])
                    )
                )
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))
        self.admin = cluster.admin(self.database)
        self.admin.execute((FIXTURES / "payments.sql").read_text())
        self.admin.execute(_SEEN)
        self.admin.execute(_SLOW)
        self.admin.execute("GRANT SELECT ON seen, attempts TO countersign_reads")
        self.admin.execute("GRANT SELECT, INSERT ON payments TO countersign_buries")
        self.proxy = TcpProxy("127.0.0.1", cluster.port, _TLS)

    def config(self, **changes: Any) -> dict[str, Any]:
        known = EXAMPLE | {
            "host": "localhost",
            "port": self.proxy.port,
            "dbname": self.database,
            "tls_root": _PEM,
            "query": EXAMPLE["query"].replace("payments", "seen"),
            "timeout_seconds": 1,
        }
        return {name: value for name, value in (known | changes).items() if value is not None}

    def wrong_config(self) -> dict[str, Any]:
        return self.config(password="not-the-password-1")

    def other_accounts(self) -> list[dict[str, Any]]:
        return [self.config(account="7000000000000000000/elsewhere")]

    def access(self, **changes: Any) -> Any:
        return access_of(SQL, "test", self.config(**changes))

    def make_effect(self, marker: str, status: str = "paid") -> str:
        row = self.admin.execute(
            "INSERT INTO payments (idem_key, status, amount_minor, currency)"
            " VALUES (%s, %s, 2500, 'usd') RETURNING id",
            (marker, status),
        ).fetchone()
        assert row is not None
        return str(row[0])

    def see(self, definition: str) -> None:
        self.admin.execute("DROP VIEW seen")
        self.admin.execute(definition)
        self.admin.execute("GRANT SELECT ON seen TO countersign_reads")

    def bend(self, fault: str) -> None:
        if fault == "refused":
            self.role("PASSWORD 'changed-since-then'")
        elif fault == "forbidden":
            self.admin.execute("REVOKE SELECT ON seen FROM countersign_reads")
        elif fault == "throttled":
            self.role("CONNECTION LIMIT 0")
        elif fault == "garbage":
            self.see(
                "CREATE VIEW seen AS SELECT id, idem_key, status, 'x' AS amount_minor,"
                " currency, args_fingerprint, created_at FROM payments"
            )
        elif fault == "hang":
            self.see("CREATE VIEW seen AS SELECT * FROM slow_payments()")
        else:
            self.proxy.mode = {"outage": "refuse", "cut": "cut"}[fault]

    def mend(self) -> None:
        self.proxy.mode = "pass"
        self.role(f"CONNECTION LIMIT -1 PASSWORD '{EXAMPLE['password']}'")
        self.see(_SEEN)

    def role(self, words: str) -> None:
        self.admin.execute(f"ALTER ROLE countersign_reads {words}")

    def close(self) -> None:
        self.proxy.close()
        self.admin.close()

    async def look(
        self, marker: str, access: AccountAccess | None = None, **changes: Any
    ) -> tuple[Look, ...]:
        asked_about = question(marker, "row", **changes)
        return (await ask(SQL, access or self.access(), asked_about)).by_marker[marker]
