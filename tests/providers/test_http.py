"""The http provider against a real server that lags, pages, redirects and fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from reconcilers import registry
from reconcilers.evidence import Look, Outcome, Stage
from reconcilers.providers.base import BadConfig, ProviderError, parse_config
from reconcilers.providers.http.addresses import refused_address
from tests.providers.contract import Bench, ProviderContract, access_of, ask, question
from tests.providers.contract_failures import may_count, past
from tests.support.gates import OpenGate
from tests.support.orders_server import OrdersServer

FIXTURES = Path(registry.__file__).parent / "providers" / "http" / "fixtures"
HTTP = registry.provider_of("http")
EXAMPLE: dict[str, Any] = yaml.safe_load((FIXTURES / "orders.yaml").read_text())


class HttpBench(Bench):
    kind = "http"
    object_kind = "object"
    absent_id = "ord_never"

    def __init__(self, server: OrdersServer) -> None:
        self.server = server

    def config(self, **changes: Any) -> dict[str, Any]:
        here = {
            "url": f"{self.server.url}/orders?reference={{key}}",
            "account_url": f"{self.server.url}/me",
            "bearer": self.server.token,
            "next": "/next",
            "allow_http": True,
            "allow_private": True,
            "timeout_seconds": 1,
        }
        known = EXAMPLE | here | changes
        return {name: value for name, value in known.items() if value is not None}

    def wrong_config(self) -> dict[str, Any]:
        return self.config(bearer="token-that-was-rolled")

    def other_accounts(self) -> list[dict[str, Any]]:
        return [self.config(account="merchant-8")]

    def make_effect(self, marker: str) -> str:
        return str(self.server.order(marker)["id"])

    def bend(self, fault: str) -> None:
        self.server.fault = fault

    def mend(self) -> None:
        self.server.fault = None

    async def look(self, marker: str, *, gate: OpenGate | None = None, **config: Any) -> Look:
        access = access_of(HTTP, "test", self.config(**config))
        asked_about = question(marker, "object", settles_at=past())
        return (await ask(HTTP, access, asked_about, gate=gate)).look(marker)


@pytest.fixture
def bench() -> Iterator[HttpBench]:
    server = OrdersServer()
    server.start()
    yield HttpBench(server)
    server.stop()


@pytest.fixture
def marker() -> str:
    return uuid4().hex


class TestContract(ProviderContract):
    kind = "http"


#: What an account of class C says instead of the example's promises.
RUMOUR = {"class": "C", "strongly_consistent": None, "complete": None}


class TestConfig:
    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"url": "https://api.example.com/orders"}, r"url: does not use \{key\}"),
            ({"url": "https://api.example.com/{key}/{secret}"}, "url: expected an address"),
            ({"url": "https://{key}.example.com/"}, "url: a parameter cannot choose the host"),
            ({"url": "ftp://api.example.com/{key}"}, "url: expected an address such as"),
            ({"url": "https://me:secret@api.example.com/{key}"}, "url: credentials do not"),
            ({"url": "https://api.example.com:x/{key}"}, "url: expected an address"),
            ({"url": "https://api.example.com/{key.__class__}"}, "url: expected an address"),
            ({"url": "http://api.example.com/{key}"}, "url: expected https"),
            ({"url": "https://169.254.169.254/{key}"}, "url: a private address"),
            ({"account_url": "https://[::1]/me"}, "account_url: a private address"),
            ({"basic_user": "x"}, "basic_user: basic_user and basic_password go together"),
            ({"header_name": "x", "header_value": "y"}, "bearer: expected one way to sign in"),
            (
                {"bearer": None, "header_name": "Host", "header_value": "y"},
                "header_name: expected the name of a header that is free",
            ),
            ({"bearer": "two\r\nlines"}, "bearer: expected one line"),
            ({"id": "id"}, "id: expected a JSON pointer"),
            ({"empty": ["500"]}, "empty: expected some of 404, empty_list"),
            ({"empty": None}, "empty: missing"),
            ({"class": "D"}, "class: expected one of A, B, C, E"),
            ({"complete": None}, "class: B needs strongly_consistent: true"),
            ({"strongly_consistent": False}, "class: B needs strongly_consistent: true"),
            ({"lag_seconds": 5}, "lag_seconds: what is strongly consistent has no lag"),
            (RUMOUR, "item_url: needed for class C"),
            ({"items": None}, "items: needed for class B"),
            ({"statuses": None}, "statuses: goes together with status"),
            ({"account_pointer": None}, "account_pointer: goes together with account_url"),
            ({"timeout_seconds": 0}, "timeout_seconds: expected a number above zero"),
        ],
    )
    def test_what_cannot_be_right_is_refused_by_field(self, changes, says):
        document = {k: v for k, v in (EXAMPLE | changes).items() if v is not None}
        with pytest.raises(BadConfig, match=f"^{says}"):
            parse_config(HTTP, "test", document)

    def test_the_class_is_the_accounts(self):
        plain, secrets = parse_config(HTTP, "test", EXAMPLE)
        assert set(secrets) == {"bearer"}
        (way,) = HTTP.ways_of("object", plain)
        assert (way.lookup_class, way.may_prove_absence) == ("B", True)
        item_url = "https://api.example.com/v1/orders/{id}"
        rumour = {k: v for k, v in (EXAMPLE | RUMOUR).items() if v is not None}
        plain, _ = parse_config(HTTP, "test", rumour | {"item_url": item_url, "lag_seconds": 60})
        (way,) = HTTP.ways_of("object", plain)
        assert (way.lookup_class, way.may_prove_absence) == ("C", False)
        assert way.lag.total_seconds() == 60


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fe80::1%eth0",
            "fc00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "[::1]",
        ],
    )
    def test_what_is_inside_is_refused(self, address):
        assert refused_address(address)

    @pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07::1", "example.com"])
    def test_what_is_outside_or_a_name_is_not(self, address):
        assert not refused_address(address)

    @pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001"])
    def test_another_spelling_of_an_address_is_refused_with_the_configuration(self, host):
        with pytest.raises(BadConfig, match=r"^url: a private address"):
            parse_config(HTTP, "test", EXAMPLE | {"url": f"https://{host}/{{key}}"})

    async def test_a_name_that_leads_inside_is_refused_before_anything_is_sent(self, bench, marker):
        port = bench.server.url.rpartition(":")[2]
        gate = OpenGate()
        changes = {"url": f"http://localhost:{port}/orders?reference={{key}}", "account_url": None}
        look = await bench.look(
            marker, gate=gate, allow_private=None, account_pointer=None, **changes
        )
        assert "private address" in look.reason, look.reason
        assert not bench.server.asked
        assert not gate.failures

    async def test_a_redirect_is_not_followed(self, bench, marker):
        bench.make_effect(marker)
        bench.server.redirects_to = f"{bench.server.url}/me"
        look = await bench.look(marker)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "redirect" in look.reason
        assert bench.server.paths() == ["/me"]

    async def test_a_next_page_elsewhere_is_not_read(self, bench, marker):
        bench.server.page_size = 1
        bench.server.next_elsewhere = "http://127.0.0.1:9/orders"
        for _ in range(2):
            bench.server.order(marker.upper())
        look = await bench.look(marker)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "another origin" in look.reason


class TestLooks:
    async def test_it_reads_what_the_pointers_name(self, bench, marker):
        bench.make_effect(marker)
        (seen,) = (await bench.look(marker)).sightings
        assert (seen.amount_minor, seen.currency, seen.mode) == (2500, "EUR", "test")
        assert seen.stage is Stage.DONE
        assert seen.created_at is not None

    @pytest.mark.parametrize(
        ("state", "outcome", "stage"),
        [
            ("processing", Outcome.PENDING, Stage.IN_FLIGHT),
            ("cancelled", Outcome.HIT, Stage.NOT_REACHED),
            ("never_heard_of", Outcome.PENDING, Stage.IN_FLIGHT),
        ],
    )
    async def test_a_word_says_how_far_the_effect_has_come(
        self, bench, marker, state, outcome, stage
    ):
        bench.server.order(marker, state=state)
        look = await bench.look(marker)
        assert (look.outcome, look.sightings[0].stage) == (outcome, stage)

    @pytest.mark.parametrize(
        "broken",
        [{"id": None}, {"id": ""}, {"total": "a lot"}, {"total": "0.001"}, {"total": True}],
    )
    async def test_what_cannot_be_understood_is_no_answer(self, bench, marker, broken):
        bench.server.order(marker, **broken)
        assert (await bench.look(marker)).outcome is Outcome.CANNOT_LOOK

    async def test_an_object_of_the_other_mode_is_not_looked_at(self, bench, marker):
        bench.server.order(marker, livemode=True)
        look = await bench.look(marker)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)

    async def test_a_key_is_escaped(self, bench):
        key = "a/b?c=d&e#f%2F+é"
        object_id = bench.make_effect(key)
        assert [seen.id for seen in (await bench.look(key)).sightings] == [object_id]
        url = f"{bench.server.url}/by-reference/{{key}}"
        await bench.look("../me", url=url, items=None, empty=["404"], **{"class": "A"})
        assert bench.server.paths()[-1] == "/by-reference/..%2Fme"

    async def test_all_pages_are_read_and_all_hits_told(self, bench, marker):
        bench.server.page_size = 2
        ids = {bench.make_effect(marker) for _ in range(5)}
        look = await bench.look(marker)
        assert {seen.id for seen in look.sightings} == ids
        assert look.pages == 3

    async def test_a_page_that_fails_leaves_no_empty_answer(self, bench, marker):
        bench.server.page_size = 1
        bench.server.next_elsewhere = "/orders/nothing-there"
        for _ in range(2):
            bench.server.order(marker.upper())
        look = await bench.look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert not look.complete

    async def test_pages_without_end_are_given_up(self, bench, marker):
        bench.server.page_size = 1
        bench.server.next_elsewhere = "/orders?from=0"
        for _ in range(2):
            bench.server.order(marker.upper())
        look = await bench.look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "more than 20 pages" in look.reason

    async def test_only_what_was_declared_means_that_nothing_is_there(self, bench, marker):
        assert may_count(await bench.look(marker))
        assert (await bench.look(marker, empty=["404"])).outcome is Outcome.CANNOT_LOOK
        by_key = {"url": f"{bench.server.url}/by-reference/{{key}}", "items": None, "class": "A"}
        for spelt in ("404", 404):
            assert may_count(await bench.look(marker, empty=[spelt], **by_key))
        assert (await bench.look(marker, empty=[], **by_key)).outcome is Outcome.CANNOT_LOOK

    async def test_an_answer_about_another_key_is_no_answer(self, bench, marker):
        other = bench.make_effect(uuid4().hex)
        url = f"{bench.server.url}/orders/{other}?{{key}}"
        look = await bench.look(marker, url=url, items=None, empty=["404"], **{"class": "A"})
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)

    async def test_a_call_older_than_the_horizon_is_not_covered(self, bench, marker):
        look = await bench.look(marker, horizon_days=1)
        assert look.covers_from is not None
        assert (look.ended_at - look.covers_from).days == 1

    async def test_without_an_account_or_a_known_object_nothing_counts(self, bench, marker):
        look = await bench.look(marker, account_url=None, account_pointer=None)
        assert look.outcome is Outcome.EMPTY
        assert not may_count(look)
        access = access_of(HTTP, "test", bench.config(account_url=None, account_pointer=None))
        with pytest.raises(ProviderError) as raised:
            await HTTP.open(access, OpenGate()).identify()
        assert raised.value.status == 403


class TestRumours:
    """Class C: a hit counts once it was read again by id, a miss never."""

    @pytest.fixture
    def rumour(self, bench: HttpBench) -> dict[str, Any]:
        return RUMOUR | {"item_url": f"{bench.server.url}/orders/{{id}}"}

    async def test_a_hit_is_read_again(self, bench, marker, rumour):
        object_id = bench.make_effect(marker)
        look = await bench.look(marker, **rumour)
        assert [(seen.id, seen.verified) for seen in look.sightings] == [(object_id, True)]
        assert bench.server.paths()[-1] == f"/orders/{object_id}"

    async def test_one_that_cannot_be_read_again_is_no_hit_and_no_silence(
        self, bench, marker, rumour
    ):
        bench.make_effect(marker)
        look = await bench.look(
            marker, **rumour | {"item_url": f"{bench.server.url}/orders/x{{id}}"}
        )
        assert look.outcome is Outcome.CANNOT_LOOK
        assert [seen.verified for seen in look.sightings] == [False]

    async def test_a_miss_never_counts(self, bench, marker, rumour):
        look = await bench.look(marker, **rumour)
        assert look.outcome is Outcome.EMPTY
        assert not may_count(look)


@pytest.mark.parametrize(
    ("changes", "header", "value"),
    [
        ({"basic_user": "shop", "basic_password": "pässword"}, "authorization", "Basic "),
        ({"header_name": "X-Api-Key", "header_value": "key-1234567890"}, "x-api-key", "key-123"),
    ],
)
async def test_other_ways_to_sign_in(bench, marker, changes, header, value):
    look = await bench.look(marker, bearer=None, **changes)
    assert look.outcome is Outcome.CANNOT_LOOK
    assert bench.server.asked[0].headers[header].startswith(value)
