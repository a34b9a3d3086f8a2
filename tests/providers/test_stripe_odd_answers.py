"""Answers that Stripe should never give, and a proxy, a broken clock or an edited list does."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from uuid import uuid4

import pytest

from reconcilers.evidence import Outcome
from reconcilers.providers.base import KnownObject, ProviderError
from tests.providers.contract import access_of, ask, question
from tests.providers.test_stripe import STRIPE
from tests.support.rest_server import Asked, RestServer, Told

KEY = "sk_test_odd12345678"
LIST = "/v1/payment_intents"


def an_intent(marker: str | None, *, at: datetime | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"pi_{uuid4().hex[:12]}",
        "object": "payment_intent",
        "amount": 2500,
        "currency": "usd",
        "status": "succeeded",
        "livemode": False,
        "created": int((at or datetime.now(UTC)).timestamp()),
        "metadata": {"idem_key": marker} if marker is not None else {},
    } | changes


def a_page(*bodies: dict[str, Any], more: bool = False) -> Told:
    return Told(200, {"object": "list", "data": list(bodies), "has_more": more})


class OddStripe(RestServer):
    """Knows its account; every list is what `lists` says."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: Callable[[Asked], Told] = lambda asked: a_page()
        self.clock = timedelta(0)

    def answer(self, asked: Asked) -> Told:
        if asked.path == "/v1/account":
            return Told(200, {"id": "acct_odd", "object": "account"})
        if asked.path == LIST:
            told = self.lists(asked)
            moment = format_datetime(datetime.now(UTC) + self.clock, usegmt=True)
            return Told(told.status, told.body, {"Date": moment} | told.headers)
        if asked.path == "/v1/test_helpers/test_clocks":
            return a_page()
        return Told(404, {"error": {"type": "invalid_request_error", "message": "no such"}})


@pytest.fixture
def server() -> Iterator[OddStripe]:
    running = OddStripe()
    running.start()
    yield running
    running.stop()


async def looks_of(server: OddStripe, marker: str, **changes: Any):
    access = access_of(
        STRIPE, "test", {"secret_key": KEY, "base_url": server.url, "timeout_seconds": 1}
    )
    known = changes.pop("known", None)
    settled = datetime.now(UTC) - timedelta(seconds=1)
    asked = question(marker, "payment_intent", settles_at=settled, lookups=("list",), **changes)
    return (await ask(STRIPE, access, asked, known=known)).by_marker[marker]


@pytest.mark.parametrize(
    "told",
    [
        Told(200, {"error": {"type": "api_error", "message": "sorry"}}),
        Told(200, b'{"object":"list","data":[{"id":"pi_1","metad'),
        Told(200, b"<html>Please log in</html>", {"Content-Type": "text/html"}),
        Told(200, b""),
        Told(200, b"[]"),
        Told(200, b"null"),
        Told(200, {"object": "list", "data": []}),
        Told(200, {"object": "list", "data": {}, "has_more": False}),
        Told(200, {"object": "list", "data": [], "has_more": True}),
        Told(200, {"object": "list", "data": [None], "has_more": False}),
        Told(302, b"", {"Location": "/v1/payment_intents?again"}),
        Told(304, b""),
        Told(404, b"<html>Not found</html>"),
        Told(404, {"error": {"type": "invalid_request_error", "message": "no such"}}),
        Told(204, b""),
    ],
    ids=lambda told: f"{told.status}:{told.raw()[:24].decode()}",
)
async def test_what_is_no_page_is_never_an_empty_one(server, told):
    server.lists = lambda asked: told
    (look,) = await looks_of(server, uuid4().hex)
    assert look.outcome is Outcome.CANNOT_LOOK
    assert look.reason
    assert not look.complete


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-5", "1e999", "soon", "9" * 400, ""])
async def test_a_retry_after_that_is_nonsense_is_bounded_or_none(server, value):
    server.lists = lambda asked: Told(
        429, {"error": {"type": "rate_limit", "message": "slow"}}, {"Retry-After": value}
    )
    (look,) = await looks_of(server, uuid4().hex)
    assert look.outcome is Outcome.CANNOT_LOOK
    seconds = look.retry_after_seconds
    assert seconds is None or 0 <= seconds <= 3600


def test_no_error_asks_for_a_time_that_is_none():
    assert ProviderError("x", retry_after_seconds=float("nan")).retry_after_seconds is None
    assert ProviderError("x", retry_after_seconds=float("inf")).retry_after_seconds is None
    assert ProviderError("x", retry_after_seconds=2.0).retry_after_seconds == 2.0


async def test_a_clock_far_behind_ours_makes_a_window_sure_of_nothing(server):
    """What it made when the call came bears a time from before the window: not shown, and there."""
    marker, server.clock = uuid4().hex, -timedelta(minutes=20)
    (look,) = await looks_of(server, marker)
    assert look.outcome is Outcome.CANNOT_LOOK
    assert "clock is 12" in look.reason
    # A hit is a hit, whatever time it bears.
    server.lists = lambda asked: a_page(an_intent(marker))
    (look,) = await looks_of(server, marker)
    assert look.outcome is Outcome.HIT


@pytest.mark.parametrize("minutes", [-4, 0, 20])
async def test_a_clock_within_the_slack_or_ahead_is_covered_by_the_window(server, minutes):
    server.clock = timedelta(minutes=minutes)
    (look,) = await looks_of(server, uuid4().hex)
    assert (look.outcome, look.complete) == (Outcome.EMPTY, True)


async def test_objects_that_come_while_it_is_paged_hide_none(server):
    """Newest first by cursor: what is put in front moves nothing behind the cursor."""
    marker = uuid4().hex
    book = [an_intent("other") for _ in range(4)] + [an_intent(marker)]

    def lists(asked: Asked) -> Told:
        after = asked.query.get("starting_after")
        start = next((n + 1 for n, body in enumerate(book) if body["id"] == after), 0)
        page, more = book[start : start + 2], start + 2 < len(book)
        book.insert(0, an_intent("newcomer"))
        return a_page(*page, more=more)

    server.lists = lists
    (look,) = await looks_of(server, marker)
    assert look.outcome is Outcome.HIT


async def test_a_cursor_that_was_deleted_meanwhile_leaves_no_empty_answer(server):
    def lists(asked: Asked) -> Told:
        if "starting_after" in asked.query:
            error = {"type": "invalid_request_error", "code": "resource_missing", "message": "no"}
            return Told(400, {"error": error})
        return a_page(an_intent("other"), more=True)

    server.lists = lists
    (look,) = await looks_of(server, uuid4().hex)
    assert (look.outcome, look.complete) == (Outcome.CANNOT_LOOK, False)


async def test_one_object_on_two_pages_is_one_object(server):
    marker = uuid4().hex
    same = an_intent(marker)
    server.lists = lambda asked: a_page(same, more="starting_after" not in asked.query)
    (look,) = await looks_of(server, marker)
    assert {seen.id for seen in look.sightings} == {same["id"]}


@pytest.mark.parametrize(
    "found", ["{0} ", "{0}\u200b", "\ufeff{0}", "{0}\u0000", "", " ", "ｋ{0}", 7, ["{0}"], None]
)
async def test_a_marker_that_only_looks_like_ours_is_none(server, found):
    marker = uuid4().hex
    told = found.format(marker) if isinstance(found, str) else found
    server.lists = lambda asked: a_page(an_intent(None, metadata={"idem_key": told}))
    (look,) = await looks_of(server, marker)
    assert look.outcome is Outcome.EMPTY


async def test_zero_decimal_amounts_are_the_providers_own_integers(server):
    marker = uuid4().hex
    server.lists = lambda asked: a_page(an_intent(marker, amount=500, currency="jpy"))
    (look,) = await looks_of(server, marker)
    (seen,) = look.sightings
    assert (seen.amount_minor, seen.currency) == (500, "JPY")


class TestAControlThatIsGone:
    known = {
        "payment_intent": KnownObject(
            kind="payment_intent", id="pi_gone", created_at=datetime.now(UTC), marker="x"
        )
    }

    async def test_it_hides_no_hit(self, server):
        """An object under a test clock, or moved: empty lists mean nothing, and hits are hits."""
        marker = uuid4().hex
        server.lists = lambda asked: a_page(an_intent(marker))
        (look,) = await looks_of(server, marker, known=self.known)
        assert look.outcome is Outcome.HIT

    async def test_nothing_found_is_not_looked(self, server):
        (look,) = await looks_of(server, uuid4().hex, known=self.known)
        assert (look.outcome, look.complete) == (Outcome.CANNOT_LOOK, False)
        assert "pi_gone" in look.reason

    async def test_what_can_be_deleted_is_no_control(self, server):
        marker = uuid4().hex
        known = {
            "customer": KnownObject(
                kind="customer", id="cus_gone", created_at=datetime.now(UTC), marker="x"
            )
        }
        server.answer = lambda asked: (
            Told(200, {"id": "acct_odd"})
            if asked.path == "/v1/account"
            else a_page(
                {
                    "id": "cus_1",
                    "created": int(datetime.now(UTC).timestamp()),
                    "metadata": {"idem_key": marker},
                }
            )
        )
        access = access_of(STRIPE, "test", {"secret_key": KEY, "base_url": server.url})
        settled = datetime.now(UTC) - timedelta(seconds=1)
        asked = question(marker, "customer", settles_at=settled, lookups=("list",))
        (look,) = (await ask(STRIPE, access, asked, known=known)).by_marker[marker]
        assert look.outcome is Outcome.HIT


async def test_a_huge_list_is_read_to_its_end(server):
    """A hundred pages of a hundred: the one of ours is the last of all."""
    marker, now = uuid4().hex, datetime.now(UTC)
    pages = [
        json.dumps(
            {
                "data": [an_intent("other", at=now, id=f"pi_{page}x{n}") for n in range(100)],
                "has_more": True,
            }
        ).encode()
        for page in range(100)
    ]
    numbers = {f"pi_{page}x99": page + 1 for page in range(100)}

    def lists(asked: Asked) -> Told:
        page = numbers.get(asked.query.get("starting_after", ""), 0)
        return Told(200, pages[page]) if page < 100 else a_page(an_intent(marker, at=now))

    server.lists = lists
    (look,) = await looks_of(server, marker)
    assert (look.outcome, look.rows, look.pages) == (Outcome.HIT, 10_001, 101)
