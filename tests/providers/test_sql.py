"""The sql provider against a real Postgres with passwords and TLS: a primary and a standby."""

from uuid import uuid4

import pytest

from reconcilers.evidence import Outcome, Stage
from reconcilers.providers.base import BadConfig, parse_config
from tests.providers.contract import ProviderContract
from tests.providers.sql_bench import EXAMPLE, SQL, SqlBench


@pytest.fixture
def bench(shop: SqlBench) -> SqlBench:
    return shop


class TestContract(ProviderContract):
    kind = "sql"


class TestConfig:
    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            (
                {"query": "DELETE FROM payments WHERE idem_key = %(key)s"},
                "query: expected a SELECT",
            ),
            ({"query": "SELECT 1 WHERE '' = %(key)s; DROP TABLE payments"}, "query: expected one"),
            ({"query": "SELECT id FROM payments"}, r"query: does not use %\(key\)s"),
            ({"query": "SELECT 1 WHERE x LIKE 'a%' AND '' = %(key)s"}, "query: write a percent"),
            ({"query": "SELECT %(key)s, %(other)s"}, "query: the parameters are"),
            ({"columns": {"total": "amount"}}, "columns: total is none of"),
            ({"statuses": {"paid": ["x"]}}, "statuses: paid is none of"),
            ({"statuses": {"done": "paid"}}, "statuses: expected a list"),
            ({"tls": "prefer"}, "tls: expected one of verify-full"),
            ({"tombstone_password": None}, "tombstone_password: missing; a tombstone needs"),
            ({"tombstone_user": "countersign_reads"}, "tombstone_user: expected a role of its own"),
            ({"tombstone_status": "paid"}, "tombstone_status: is also the status of an effect"),
            (
                {"tombstone": "INSERT INTO p (idem_key) VALUES (%(key)s) ON CONFLICT DO NOTHING"},
                r"tombstone: expected it to end in ON CONFLICT \(column\) DO NOTHING",
            ),
            (
                {"tombstone": "INSERT INTO p VALUES (%(key)s) ON CONFLICT (id) DO NOTHING"},
                "tombstone: expected ON CONFLICT on idem_key",
            ),
            ({"port": 0}, "port: expected a number above zero"),
        ],
    )
    def test_what_cannot_be_right_is_refused_by_field(self, changes, says):
        document = {k: v for k, v in (EXAMPLE | changes).items() if v is not None}
        with pytest.raises(BadConfig, match=f"^{says}"):
            parse_config(SQL, "test", document)

    def test_the_example_is_accepted_and_a_tombstone_is_opt_in(self):
        plain, secrets = parse_config(SQL, "test", EXAMPLE)
        assert set(secrets) == {"password", "tombstone_password"}
        ways = {way.name: way for way in SQL.ways_of("row", plain)}
        assert ways["tombstone"].opt_in
        assert not ways["row"].opt_in
        del plain["tombstone"]
        assert [way.name for way in SQL.ways_of("row", plain)] == ["row"]


class TestRow:
    async def test_it_reads_amount_currency_status_and_time(self, bench):
        marker = uuid4().hex
        bench.make_effect(marker)
        (seen,) = (await bench.look(marker))[0].sightings
        assert (seen.amount_minor, seen.currency, seen.status) == (2500, "USD", "paid")
        assert seen.stage is Stage.DONE
        assert seen.created_at is not None

    @pytest.mark.parametrize(
        ("status", "outcome"),
        [
            ("booked", Outcome.PENDING),
            ("never_heard_of", Outcome.PENDING),
            ("declined", Outcome.HIT),
        ],
    )
    async def test_a_status_says_how_far_the_effect_has_come(self, bench, status, outcome):
        marker = uuid4().hex
        bench.make_effect(marker, status)
        assert (await bench.look(marker))[0].outcome is outcome

    async def test_a_standby_cannot_be_asked(self, bench):
        marker = uuid4().hex
        bench.admin.close()
        standby = bench.cluster.standby()
        bench.admin = bench.cluster.admin(bench.database)
        access = bench.access(port=standby.port, tls="disable", tls_root=None)
        try:
            (seen,) = await bench.look(marker, access)
        finally:
            standby.remove()
        assert seen.outcome is Outcome.CANNOT_LOOK
        assert "standby" in seen.reason
        assert (await bench.look(marker))[0].outcome is Outcome.EMPTY

    async def test_the_servers_certificate_is_checked(self, bench):
        (seen,) = await bench.look("x", bench.access(tls_root=None))
        assert (seen.outcome, seen.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "certificate" in seen.reason
        (seen,) = await bench.look("x", bench.access(host="127.0.0.1"))
        assert "certificate" in seen.reason
        (seen,) = await bench.look("x", bench.access(tls="require", tls_root=None))
        assert seen.outcome is Outcome.EMPTY

    async def test_a_query_that_writes_through_a_function_is_refused_by_postgres(self, bench):
        bench.admin.execute(
            "CREATE FUNCTION sneak(k text) RETURNS SETOF payments LANGUAGE sql SECURITY DEFINER AS"
            " $$ INSERT INTO payments (idem_key, status) VALUES (k, 'paid') RETURNING * $$"
        )
        (seen,) = await bench.look("x", bench.access(query="SELECT * FROM sneak(%(key)s)"))
        assert (seen.outcome, seen.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "only reads" in seen.reason
        found = bench.admin.execute("SELECT count(*) FROM payments WHERE idem_key = 'x'")
        assert found.fetchone() == (0,)

    async def test_a_silent_network_is_not_waited_for(self, bench):
        bench.proxy.mode = "hold"
        (seen,) = await bench.look("x")
        assert (seen.outcome, seen.permanent) == (Outcome.CANNOT_LOOK, False)

    async def test_two_rows_with_our_key_are_both_seen(self, bench):
        marker = uuid4().hex
        bench.make_effect(marker)
        bench.see(
            "CREATE VIEW seen AS SELECT * FROM payments UNION ALL"
            " SELECT id + 1, idem_key, status, amount_minor, currency, args_fingerprint,"
            " created_at FROM payments"
        )
        assert len((await bench.look(marker))[0].sightings) == 2

    async def test_a_key_is_a_value_and_never_sql(self, bench):
        for marker in ("' OR 1=1 --", "%(key)s", "x'; DROP TABLE payments; --", "ключ\\"):
            bench.make_effect(marker)
            (seen,) = (await bench.look(marker))[0].sightings
            assert seen.marker == marker


class TestTransactions:
    async def test_a_row_that_may_still_be_committed_is_not_missing(self, bench):
        marker = uuid4().hex
        original = bench.cluster.admin(bench.database)
        original.autocommit = False
        txid = original.execute("SELECT pg_current_xact_id()::text").fetchone()
        bench.admin.execute("INSERT INTO attempts VALUES (%s, %s)", (marker, *txid))
        original.execute("INSERT INTO payments (idem_key, status) VALUES (%s, 'paid')", (marker,))
        (seen,) = await bench.look(marker)
        assert (seen.outcome, seen.permanent) == (Outcome.CANNOT_LOOK, False)
        assert "not ended yet" in seen.reason
        original.commit()
        original.close()
        assert (await bench.look(marker))[0].outcome is Outcome.HIT

    async def test_one_that_was_rolled_back_is_empty(self, bench):
        marker = uuid4().hex
        original = bench.cluster.admin(bench.database)
        original.autocommit = False
        txid = original.execute("SELECT pg_current_xact_id()::text").fetchone()
        bench.admin.execute("INSERT INTO attempts VALUES (%s, %s)", (marker, *txid))
        original.rollback()
        original.close()
        assert (await bench.look(marker))[0].outcome is Outcome.EMPTY

    async def test_a_committed_one_without_a_row_says_that_the_query_looks_elsewhere(self, bench):
        marker = uuid4().hex
        bench.admin.execute("INSERT INTO attempts SELECT %s, pg_current_xact_id()", (marker,))
        (seen,) = await bench.look(marker)
        assert (seen.outcome, seen.permanent) == (Outcome.CANNOT_LOOK, True)
