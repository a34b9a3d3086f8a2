"""The postmark provider against a log of its own that lags, forgets and fails."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from reconcilers import registry
from reconcilers.evidence import Look, Outcome
from reconcilers.providers.base import BadConfig, parse_config
from reconcilers.providers.postmark.messages import STAGES, sighting_of
from tests.providers.contract import Bench, ProviderContract, access_of, ask, question
from tests.providers.contract_failures import past
from tests.support.gates import OpenGate
from tests.support.postmark_server import PostmarkServer

FIXTURES = Path(registry.__file__).parent / "providers" / "postmark" / "fixtures"
POSTMARK = registry.provider_of("postmark")


class PostmarkBench(Bench):
    kind = "postmark"
    object_kind = "email"
    absent_id = "00000000-0000-4000-8000-000000000000"

    def __init__(self, server: PostmarkServer) -> None:
        self.server = server

    def config(self, **changes: Any) -> dict[str, Any]:
        known = {"server_token": self.server.token, "base_url": self.server.url}
        return known | {"timeout_seconds": 2} | changes

    def wrong_config(self) -> dict[str, Any]:
        return self.config(server_token="token-that-was-rolled")

    def make_effect(self, marker: str) -> str:
        return str(self.server.send({"idem_key": marker})["MessageID"])

    def bend(self, fault: str) -> None:
        self.server.fault = fault

    def mend(self) -> None:
        self.server.fault = None

    def other_accounts(self) -> list[dict[str, Any]]:
        return [self.config(account="24")]

    async def ask(self, marker: str, **changes: Any) -> tuple[Look, ...]:
        gate = changes.pop("gate", None)
        access = access_of(POSTMARK, "test", self.config(**changes.pop("config", {})))
        asked_about = question(marker, "email", **({"settles_at": past()} | changes))
        return (await ask(POSTMARK, access, asked_about, gate=gate)).by_marker[marker]


@pytest.fixture
def bench() -> Iterator[PostmarkBench]:
    server = PostmarkServer()
    server.start()
    yield PostmarkBench(server)
    server.stop()


class TestContract(ProviderContract):
    kind = "postmark"


class TestStatuses:
    CASES = json.loads((FIXTURES / "statuses.json").read_text())

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
    def test_each_status_says_how_far_the_effect_has_come(self, case):
        body = {"MessageID": "m"} | case["body"]
        seen = sighting_of(body, marker_in="metadata", verified=True)
        assert (seen.status, seen.stage.value) == (case["status"], case["stage"])
        assert seen.detail == case["detail"]

    def test_every_status_of_the_table_has_a_fixture(self):
        assert set(STAGES) <= {case["body"]["Status"].lower() for case in self.CASES}

    def test_times_are_read_with_their_offset(self):
        body = {"MessageID": "m", "ReceivedAt": "2026-02-14T11:12:54.8054242-05:00"}
        seen = sighting_of(body, marker_in="metadata", verified=True)
        assert seen.created_at.astimezone(UTC).hour == 16


class TestConfig:
    def test_no_look_up_ever_proves_absence(self):
        assert not any(way.may_prove_absence for way in POSTMARK.ways("email"))

    @pytest.mark.parametrize(
        "base", ["postmark.example", "ftp://h", "http://mail.example", "https://a:b@h"]
    )
    def test_the_token_never_leaves_this_machine_in_the_clear(self, bench, base):
        with pytest.raises(BadConfig, match=r"^base_url: "):
            parse_config(POSTMARK, "test", bench.config(base_url=base))

    @pytest.mark.parametrize("field", ["timeout_seconds", "retention_days"])
    def test_numbers_are_above_zero(self, bench, field):
        with pytest.raises(BadConfig, match=f"^{field}: expected numbers above zero"):
            parse_config(POSTMARK, "test", bench.config(**{field: -1}))


class TestById:
    async def test_a_known_id_is_read_and_nothing_else(self, bench):
        marker = uuid4().hex
        message_id = bench.make_effect(marker)
        gate = OpenGate()
        (look,) = await bench.ask(marker, object_ids=(message_id,), gate=gate)
        assert (look.lookup, look.lookup_class, look.exhaustive) == ("get", "A", False)
        assert gate.turns == ["server", "details"]

    async def test_an_id_that_is_not_there_sends_the_question_on_to_the_search(self, bench):
        marker = uuid4().hex
        message_id = bench.make_effect(marker)
        looks = await bench.ask(marker, object_ids=(bench.absent_id,))
        assert [look.outcome.value for look in looks] == ["empty", "hit"]
        assert looks[1].sightings[0].id == message_id

    async def test_where_effects_are_counted_both_are_asked(self, bench):
        marker = uuid4().hex
        ids = {bench.make_effect(marker), bench.make_effect(marker)}
        looks = await bench.ask(marker, object_ids=(min(ids),), count_effects=True)
        assert [look.lookup for look in looks] == ["get", "search"]
        assert {seen.id for seen in looks[1].sightings} == ids

    @pytest.mark.parametrize("strange", ["../server", "x", "", "a?b=1"])
    async def test_what_is_no_id_is_never_put_into_a_path(self, bench, strange):
        looks = await bench.ask(uuid4().hex, object_ids=(strange,))
        assert [look.lookup for look in looks] == ["search"]

    async def test_a_message_of_another_key_says_so(self, bench):
        message_id = bench.make_effect("another")
        looks = await bench.ask(uuid4().hex, object_ids=(message_id,), lookups=("get",))
        assert looks[0].sightings[0].marker == "another"


class TestSearch:
    async def test_a_hit_is_read_again_by_its_id(self, bench):
        marker = uuid4().hex
        message = bench.server.send({"idem_key": marker, "args_fingerprint": "f" * 64})
        message["MessageEvents"] = [{"Recipient": "jo@example.com", "Type": "Delivered"}]
        (look,) = await bench.ask(marker)
        (seen,) = look.sightings
        assert (seen.status, seen.verified, seen.fingerprint) == ("delivered", True, "f" * 64)
        assert bench.server.paths()[-1].endswith("/details")

    async def test_a_log_that_is_behind_proves_nothing(self, bench):
        bench.server.lag_seconds = 3600
        marker = uuid4().hex
        bench.make_effect(marker)
        (look,) = await bench.ask(marker)
        assert (look.outcome, look.lookup_class) == (Outcome.EMPTY, "C")

    async def test_a_hit_that_cannot_be_read_again_is_no_hit_and_no_silence(self, bench):
        marker = uuid4().hex
        message = bench.server.send({"idem_key": marker})
        shown, bench.server.messages = bench.server.messages, []
        answer = bench.server.answer

        def broken(asked):
            if asked.path.endswith("/details"):
                return bench.server.refusal("outage")
            bench.server.messages = shown
            return answer(asked)

        bench.server.answer = broken
        (look,) = await bench.ask(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "could not be read again" in look.reason
        assert [(s.id, s.verified) for s in look.sightings] == [(message["MessageID"], False)]

    async def test_a_hit_that_was_deleted_meanwhile_is_not_there(self, bench):
        marker = uuid4().hex
        bench.make_effect(marker)
        answer = bench.server.answer

        def gone(asked):
            told = answer(asked)
            bench.server.messages.clear()
            return told if asked.path != "/server" else answer(asked)

        bench.server.answer = lambda asked: (
            answer(asked) if asked.path == "/server" else gone(asked)
        )
        (look,) = await bench.ask(marker)
        assert look.outcome is Outcome.EMPTY

    async def test_hits_without_metadata_are_read_before_they_are_believed(self, bench):
        bench.server.brief_hits = True
        marker = uuid4().hex
        message_id = bench.make_effect(marker)
        bench.make_effect(marker.upper())
        (look,) = await bench.ask(marker)
        assert [seen.id for seen in look.sightings] == [message_id]

    async def test_it_is_read_to_its_last_page(self, bench):
        bench.server.ignores_filters = True
        marker = uuid4().hex
        message_id = bench.make_effect(marker)
        for _ in range(250):
            bench.make_effect("another")
        (look,) = await bench.ask(marker)
        assert [seen.id for seen in look.sightings] == [message_id]
        assert bench.server.paths().count("/messages/outbound") == 3

    async def test_more_hits_than_can_be_read_are_no_empty_answer(self, bench):
        bench.server.ignores_filters = True
        for _ in range(501):
            bench.make_effect("another")
        (look,) = await bench.ask(uuid4().hex)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "more than 500" in look.reason

    async def test_the_tag_may_carry_the_key(self, bench):
        marker = uuid4().hex
        message = bench.server.send(Tag=marker)
        (look,) = await bench.ask(marker, config={"marker_in": "tag"})
        assert (look.sightings[0].id, look.sightings[0].marker) == (message["MessageID"], marker)

    async def test_another_stream_is_searched_where_it_is_named(self, bench):
        marker = uuid4().hex
        bench.server.send({"idem_key": marker}, MessageStream="receipts")
        (look,) = await bench.ask(marker)
        assert look.outcome is Outcome.EMPTY
        (look,) = await bench.ask(marker, config={"message_stream": "receipts"})
        assert look.outcome is Outcome.HIT

    async def test_after_the_retention_nothing_found_says_nothing(self, bench):
        sent = datetime.now(UTC) - timedelta(days=46)
        (look,) = await bench.ask(uuid4().hex, window_from=sent)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "45 days" in look.reason
        (look,) = await bench.ask(uuid4().hex, window_from=sent, config={"retention_days": 365})
        assert look.outcome is Outcome.EMPTY

    async def test_a_key_that_metadata_cannot_hold_is_said(self, bench):
        (look,) = await bench.ask("k" * 81)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "81" in look.reason
        assert "/messages/outbound" not in bench.server.paths()


class TestAccount:
    async def test_a_live_server_is_never_read_in_the_test_environment(self, bench):
        bench.server.delivery_type = "Live"
        (look,) = await bench.ask(uuid4().hex)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "a live server" in look.reason

    async def test_a_sandboxed_message_is_of_the_test_mode(self, bench):
        marker = uuid4().hex
        bench.make_effect(marker)
        (look,) = await bench.ask(marker)
        assert look.sightings[0].mode == "test"

    async def test_who_throttles_says_for_how_long(self, bench):
        answer = bench.server.answer

        def slow(asked):
            told = answer(asked)
            if asked.path != "/server":
                told.status, told.headers["Retry-After"] = 429, "17"
            return told

        bench.server.answer = slow
        (look,) = await bench.ask(uuid4().hex)
        assert (look.outcome, look.retry_after_seconds) == (Outcome.CANNOT_LOOK, 17.0)
