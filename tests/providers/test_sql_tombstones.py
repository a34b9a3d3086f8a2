"""The tombstone: our own row under the key, against originals that come early, late or never."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest

from reconcilers.evidence import Outcome
from tests.providers.sql_bench import EXAMPLE, SqlBench

#: What the engine asks about an intent that is closed, for a tool that names the look-up.
OPTED_IN = {"lookups": ("row", "tombstone"), "wanted": False}
_ORIGINAL = "INSERT INTO payments (idem_key, status, amount_minor) VALUES (%s, 'paid', 2500)"


@pytest.fixture
def marker() -> str:
    return uuid4().hex


def rows(shop: SqlBench, marker: str) -> list[str]:
    found = shop.admin.execute("SELECT status FROM payments WHERE idem_key = %s", (marker,))
    return [status for (status,) in found]


@pytest.mark.parametrize(
    "changes",
    [
        {"lookups": (), "wanted": False},
        {"lookups": ("row",), "wanted": False},
        {"lookups": ("row", "tombstone"), "wanted": True},
        {},
    ],
)
async def test_it_never_writes_unless_the_tool_names_it_and_nobody_wants_the_call(
    shop, marker, changes
):
    looks = await shop.look(marker, **changes)
    assert [(each.lookup, each.outcome) for each in looks] == [("row", Outcome.EMPTY)]
    assert rows(shop, marker) == []


async def test_it_never_writes_where_the_account_has_none(shop, marker):
    less = {name: None for name in EXAMPLE if name.startswith("tombstone")}
    looks = await shop.look(marker, shop.access(**less), **OPTED_IN)
    assert [each.lookup for each in looks] == ["row"]
    assert rows(shop, marker) == []


async def test_accepted_means_that_the_original_can_never_land(shop, marker):
    row, tombstone = await shop.look(marker, **OPTED_IN)
    assert row.outcome is Outcome.EMPTY
    assert (tombstone.lookup, tombstone.lookup_class) == ("tombstone", "T")
    assert tombstone.outcome is Outcome.EMPTY
    assert tombstone.complete
    assert tombstone.exhaustive
    assert tombstone.control_passed
    assert rows(shop, marker) == [EXAMPLE["tombstone_status"]]
    with pytest.raises(psycopg.errors.UniqueViolation):
        shop.admin.execute(_ORIGINAL, (marker,))


async def test_asked_again_it_finds_its_own_tombstone_and_no_effect(shop, marker):
    await shop.look(marker, **OPTED_IN)
    row, tombstone = await shop.look(marker, **OPTED_IN)
    assert (row.outcome, tombstone.outcome) == (Outcome.EMPTY, Outcome.EMPTY)
    assert not row.sightings
    assert len(rows(shop, marker)) == 1


async def test_where_the_original_is_there_nothing_is_written(shop, marker):
    object_id = shop.make_effect(marker)
    (row,) = await shop.look(marker, **OPTED_IN)
    assert [seen.id for seen in row.sightings] == [object_id]
    assert rows(shop, marker) == ["paid"]


async def test_refused_means_that_the_original_is_there_and_is_read(shop, marker):
    # The row comes between our read and our write: the first view hides it, the second does not.
    object_id = shop.make_effect(marker)
    shop.see(
        "CREATE VIEW seen AS SELECT * FROM payments WHERE status <> 'paid'"
        " OR EXISTS (SELECT FROM attempts WHERE attempts.idem_key = 'burying')"
    )
    shop.admin.execute(
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN"
        " INSERT INTO attempts VALUES ('burying', '1'); RETURN NEW; END $$"
    )
    shop.admin.execute(
        "CREATE TRIGGER noted BEFORE INSERT ON payments FOR EACH ROW EXECUTE FUNCTION noted()"
    )
    try:
        row, tombstone = await shop.look(marker, **OPTED_IN)
    finally:
        shop.admin.execute("DROP FUNCTION noted CASCADE")
    assert row.outcome is Outcome.EMPTY
    assert (tombstone.lookup_class, tombstone.outcome) == ("T", Outcome.HIT)
    assert [seen.id for seen in tombstone.sightings] == [object_id]
    assert rows(shop, marker) == ["paid"]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_it_waits_for_an_original_that_is_on_its_way(shop, marker, ends):
    original = shop.cluster.admin(shop.database)
    original.autocommit = False
    original.execute(_ORIGINAL, (marker,))
    threading.Timer(0.4, getattr(original, ends)).start()
    looks = await shop.look(marker, **OPTED_IN)
    original.close()
    committed = ends == "commit"
    assert looks[-1].lookup == "tombstone"
    assert looks[-1].outcome is (Outcome.HIT if committed else Outcome.EMPTY)
    assert rows(shop, marker) == ["paid" if committed else EXAMPLE["tombstone_status"]]


async def test_an_original_that_stays_open_is_not_waited_for_longer_than_the_timeout(shop, marker):
    original = shop.cluster.admin(shop.database)
    original.autocommit = False
    original.execute(_ORIGINAL, (marker,))
    looks = await shop.look(marker, **OPTED_IN)
    original.rollback()
    original.close()
    assert looks[-1].outcome is Outcome.CANNOT_LOOK
    assert not looks[-1].permanent
    assert rows(shop, marker) == []


async def test_without_its_own_permission_it_cannot_look_and_the_row_still_counts(shop, marker):
    shop.admin.execute("REVOKE INSERT ON payments FROM countersign_buries")
    try:
        row, tombstone = await shop.look(marker, **OPTED_IN)
    finally:
        shop.admin.execute("GRANT INSERT ON payments TO countersign_buries")
    assert row.outcome is Outcome.EMPTY
    assert (tombstone.outcome, tombstone.permanent) == (Outcome.CANNOT_LOOK, True)


async def test_a_tombstone_that_the_query_does_not_find_proves_nothing(shop, marker):
    shop.see("CREATE VIEW seen AS SELECT * FROM payments WHERE status = 'paid'")
    _, tombstone = await shop.look(marker, **OPTED_IN)
    assert (tombstone.outcome, tombstone.permanent) == (Outcome.CANNOT_LOOK, True)
    assert "proves nothing" in tombstone.reason


async def test_of_an_original_and_a_tombstone_that_race_exactly_one_lands(shop):
    """Forty races: whoever wins, the look tells what is there."""
    markers = [uuid4().hex for _ in range(40)]
    begin = threading.Barrier(2)

    def original(marker: str, pause: float) -> bool:
        with shop.cluster.admin(shop.database) as connection:
            begin.wait(20)
            time.sleep(pause)
            try:
                connection.execute(_ORIGINAL, (marker,))
            except psycopg.errors.UniqueViolation:
                return False
        return True

    landed = 0
    with ThreadPoolExecutor(1) as others:
        for number, marker in enumerate(markers):
            # Our own write comes after three connections: the originals are spread around it.
            racing = others.submit(original, marker, number * 0.005)
            begin.wait(20)
            looks = await shop.look(marker, **OPTED_IN)
            won = racing.result(20)
            landed += won
            assert rows(shop, marker) == ["paid" if won else EXAMPLE["tombstone_status"]]
            assert looks[-1].outcome is (Outcome.HIT if won else Outcome.EMPTY)
            if not won:
                assert looks[-1].lookup_class == "T"
    print(f"{landed} of {len(markers)} originals landed")
