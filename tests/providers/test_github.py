"""The github provider against a GitHub of its own that pages, lags and refuses."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from reconcilers import registry
from reconcilers.evidence import Look, Outcome
from reconcilers.providers.base import BadConfig, parse_config
from reconcilers.providers.github.objects import (
    DEPLOYMENT_STAGES,
    number_of,
    sighting_of,
    texts_of,
)
from tests.providers.contract import Bench, ProviderContract, access_of, ask, question
from tests.providers.contract_failures import past
from tests.support.gates import OpenGate
from tests.support.github_server import GitHubServer, as_text, issue_body
from tests.support.rest_server import Told

FIXTURES = Path(registry.__file__).parent / "providers" / "github" / "fixtures"
GITHUB = registry.provider_of("github")
DEPLOYMENTS = "/repos/acme/shop/deployments"
ISSUES = "/repos/acme/shop/issues"


class GitHubBench(Bench):
    kind = "github"
    object_kind = "deployment"
    absent_id = "999999"

    def __init__(self, server: GitHubServer) -> None:
        self.server = server

    def config(self, **changes: Any) -> dict[str, Any]:
        known = {"token": self.server.token, "repository": "acme/shop", "timeout_seconds": 2}
        return known | {"base_url": self.server.url} | changes

    def wrong_config(self) -> dict[str, Any]:
        return self.config(token="ghp_revoked0123456789")

    def make_effect(self, marker: str) -> str:
        return str(self.server.deploy({"idem_key": marker}, "success")["id"])

    def bend(self, fault: str) -> None:
        self.server.fault = fault

    def mend(self) -> None:
        self.server.fault = None

    def other_accounts(self) -> list[dict[str, Any]]:
        return [self.config(account="4712"), self.config(repository="acme/secret")]

    async def ask(self, marker: str, kind: str = "deployment", **changes: Any) -> tuple[Look, ...]:
        gate = changes.pop("gate", None)
        access = access_of(GITHUB, "test", self.config(**changes.pop("config", {})))
        asked_about = question(marker, kind, **({"settles_at": past()} | changes))
        return (await ask(GITHUB, access, asked_about, gate=gate)).by_marker[marker]


@pytest.fixture
def bench() -> Iterator[GitHubBench]:
    server = GitHubServer()
    server.start()
    yield GitHubBench(server)
    server.stop()


class TestContract(ProviderContract):
    kind = "github"


class TestStatuses:
    CASES = json.loads((FIXTURES / "statuses.json").read_text())

    @pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['kind']}-{'-'.join(c['states'])}")
    def test_each_status_says_how_far_the_effect_has_come(self, case):
        statuses = [{"id": n, "state": state} for n, state in enumerate(case["states"])]
        body = {"id": 1, "number": 1, "state": (case["states"] or [""])[-1]}
        seen = sighting_of(case["kind"], body, statuses, verified=True)
        assert (seen.status, seen.stage.value) == (case["status"], case["stage"])

    def test_every_status_of_the_table_has_a_fixture(self):
        covered = {case["status"] for case in self.CASES if case["kind"] == "deployment"}
        assert set(DEPLOYMENT_STAGES) <= covered

    @pytest.mark.parametrize(
        ("payload", "marker"),
        [
            ({"idem_key": "k"}, "k"),
            ('{"idem_key": "k"}', "k"),
            ("idem_key", None),
            ("", None),
            (None, None),
            ({"idem_key": 7}, None),
            ({"nested": {"idem_key": "k"}}, None),
        ],
    )
    def test_the_payload_may_be_an_object_or_text(self, payload, marker):
        assert texts_of("deployment", {"payload": payload}).get("idem_key") == marker

    @pytest.mark.parametrize(
        ("body", "marker"),
        [
            ("<!-- idem_key: k 1 -->", "k 1"),
            ("<!--idem_key:k-->", "k"),
            ("text idem_key: k text", None),
            ("<!-- idem_key: first -->\n> <!-- idem_key: quoted -->", "first"),
            (None, None),
        ],
    )
    def test_an_issues_first_comment_of_ours_counts(self, body, marker):
        assert texts_of("issue", {"body": body}).get("idem_key") == marker

    @pytest.mark.parametrize(
        ("reference", "number"),
        [
            ("42", "42"),
            ("#42", "42"),
            ("acme/shop#42", "42"),
            ("https://github.com/Acme/Shop/issues/42", "42"),
            ("https://api.github.com/repos/acme/shop/issues/42", "42"),
            ("https://github.com/acme/other/issues/42", None),
            ("https://github.com/acme/shop/pull/42", None),
            ("../../user", None),
            ("42/../..", None),
            ("", None),
        ],
    )
    def test_runtimes_may_report_a_number_or_an_address(self, reference, number):
        assert number_of(reference, "issue", "acme/shop") == number


class TestConfig:
    def test_no_look_up_ever_proves_absence(self):
        for kind in ("deployment", "deployment_request", "issue"):
            assert GITHUB.ways(kind)
            assert not any(way.may_prove_absence for way in GITHUB.ways(kind))

    @pytest.mark.parametrize("name", ["shop", "acme/shop/x", "acme/..", "acme/sh op", "../shop"])
    def test_a_repository_is_an_owner_and_a_name(self, bench, name):
        with pytest.raises(BadConfig, match=r"^repository: expected owner/name"):
            parse_config(GITHUB, "test", bench.config(repository=name))


class TestDeployments:
    async def test_a_known_id_is_read_with_its_statuses_and_nothing_else(self, bench):
        marker = uuid4().hex
        number = bench.make_effect(marker)
        (look,) = await bench.ask(marker, object_ids=(number,))
        assert (look.lookup, look.lookup_class, look.exhaustive) == ("get", "A", False)
        paths = bench.server.paths()
        assert paths == [
            "/repos/acme/shop",
            f"{DEPLOYMENTS}/{number}",
            f"{DEPLOYMENTS}/{number}/statuses",
        ]

    async def test_one_that_is_not_finished_is_in_flight(self, bench):
        marker = uuid4().hex
        bench.server.deploy(as_text({"idem_key": marker}), "queued", "in_progress")
        (look,) = await bench.ask(marker)
        assert (look.outcome, look.sightings[0].status) == (Outcome.PENDING, "in_progress")
        (look,) = await bench.ask(marker, "deployment_request")
        assert look.outcome is Outcome.HIT

    async def test_one_pass_serves_every_question_to_the_last_page(self, bench):
        bench.server.page_size = 10
        markers = [uuid4().hex for _ in range(35)]
        ids = {marker: bench.make_effect(marker) for marker in markers}
        access = access_of(GITHUB, "test", bench.config())
        asked = await ask(GITHUB, access, *(question(each, "deployment") for each in markers))
        for marker in markers:
            assert [seen.id for seen in asked.look(marker).sightings] == [ids[marker]]
        assert bench.server.paths().count(DEPLOYMENTS) == 4
        assert (asked.look(markers[0]).pages, asked.look(markers[0]).rows) == (4, 35)

    async def test_pages_before_the_window_are_not_read(self, bench):
        bench.server.page_size = 5
        for _ in range(20):
            bench.server.deploy({}, created_at="2026-01-01T00:00:00Z")
        await bench.ask(uuid4().hex)
        assert bench.server.paths().count(DEPLOYMENTS) == 1

    async def test_two_with_one_key_are_both_seen(self, bench):
        marker = uuid4().hex
        ids = {bench.make_effect(marker), bench.make_effect(marker)}
        looks = await bench.ask(marker, object_ids=(min(ids),), count_effects=True)
        assert [look.lookup for look in looks] == ["get", "list"]
        assert {seen.id for seen in looks[1].sightings} == ids

    async def test_a_list_that_is_behind_proves_nothing(self, bench):
        bench.server.lag_seconds = 3600
        marker = uuid4().hex
        bench.make_effect(marker)
        (look,) = await bench.ask(marker)
        assert (look.outcome, look.lookup_class) == (Outcome.EMPTY, "C")

    async def test_a_hit_that_cannot_be_read_again_is_no_hit_and_no_silence(self, bench):
        marker = uuid4().hex
        number = bench.make_effect(marker)
        bench.server.instead[f"{DEPLOYMENTS}/{number}"] = Told(502, {})
        (look,) = await bench.ask(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "could not be read again" in look.reason
        assert [(seen.id, seen.verified) for seen in look.sightings] == [(number, False)]

    async def test_statuses_that_cannot_be_read_leave_the_effect_unknown(self, bench):
        marker = uuid4().hex
        number = bench.make_effect(marker)
        bench.server.instead[f"{DEPLOYMENTS}/{number}/statuses"] = Told(500, {})
        (look,) = await bench.ask(marker, lookups=("get",), object_ids=(number,))
        assert look.outcome is Outcome.CANNOT_LOOK

    async def test_a_page_that_fails_leaves_the_rest_without_an_answer(self, bench):
        bench.server.page_size = 1
        newest, oldest = uuid4().hex, uuid4().hex
        bench.make_effect(oldest)
        bench.make_effect(newest)
        answer = bench.server.answer
        bench.server.answer = lambda asked: (
            Told(502, {})
            if asked.path == DEPLOYMENTS and asked.query.get("page") == "2"
            else answer(asked)
        )
        access = access_of(GITHUB, "test", bench.config())
        questions = [question(each, "deployment") for each in (newest, oldest)]
        asked = await ask(GITHUB, access, *questions)
        assert asked.look(newest).outcome is Outcome.HIT
        assert asked.look(oldest).outcome is Outcome.CANNOT_LOOK

    async def test_the_token_never_follows_a_list_to_another_address(self, bench):
        bench.server.page_size, bench.server.next_elsewhere = 1, True
        for _ in range(2):
            bench.make_effect(uuid4().hex)
        (look,) = await bench.ask(uuid4().hex)
        assert look.reason == "the list goes on at another address"

    async def test_a_reported_deployment_without_a_key_keeps_the_name_it_was_reported_by(
        self, bench
    ):
        number = bench.server.deploy({}, "success")["id"]
        address = f"https://api.github.com{DEPLOYMENTS}/{number}"
        (look,) = await bench.ask(uuid4().hex, object_ids=(address,))
        assert (look.sightings[0].id, look.sightings[0].marker) == (address, None)


class TestIssues:
    async def test_an_issue_is_found_by_the_comment_in_its_body(self, bench):
        marker = uuid4().hex
        issue = bench.server.open_issue(issue_body(marker, args_fingerprint="f" * 64))
        (look,) = await bench.ask(marker, "issue")
        (seen,) = look.sightings
        assert (seen.id, seen.fingerprint) == (str(issue["number"]), "f" * 64)
        asked = next(each for each in bench.server.asked if each.path == ISSUES)
        assert asked.query["state"] == "all"

    async def test_a_closed_issue_was_opened(self, bench):
        marker = uuid4().hex
        bench.server.open_issue(issue_body(marker), state="closed")
        (look,) = await bench.ask(marker, "issue")
        assert look.outcome is Outcome.HIT

    async def test_a_pull_request_is_no_issue(self, bench):
        marker = uuid4().hex
        bench.server.open_issue(issue_body(marker), pull_request={"url": "…"})
        (look,) = await bench.ask(marker, "issue")
        assert look.outcome is Outcome.EMPTY

    async def test_only_what_changed_since_the_first_send_is_listed(self, bench):
        sent = datetime.now(UTC) - timedelta(minutes=1)
        await bench.ask(uuid4().hex, "issue", window_from=sent)
        asked = next(each for each in bench.server.asked if each.path == ISSUES)
        since = datetime.fromisoformat(asked.query["since"])
        assert timedelta(minutes=10) <= sent - since < timedelta(minutes=10, seconds=2)

    async def test_search_is_asked_where_the_list_cannot_be_read(self, bench):
        marker = uuid4().hex
        issue = bench.server.open_issue(issue_body(marker))
        bench.server.open_issue(issue_body(marker.upper()))
        bench.server.instead[ISSUES] = Told(500, {})
        looks = await bench.ask(marker, "issue")
        assert [look.outcome.value for look in looks] == ["cannot_look", "hit"]
        assert [seen.id for seen in looks[1].sightings] == [str(issue["number"])]

    async def test_a_search_that_gave_up_is_no_empty_answer(self, bench):
        bench.server.incomplete = True
        (look,) = await bench.ask(uuid4().hex, "issue", lookups=("search",))
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "incomplete_results" in look.reason

    async def test_a_key_that_search_cannot_quote_is_not_searched_for(self, bench):
        (look,) = await bench.ask('a" repo:acme/secret "', "issue", lookups=("search",))
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "/search/issues" not in bench.server.paths()

    async def test_an_issue_that_was_moved_is_no_missing_one(self, bench):
        moved = Told(301, {}, {"Location": "https://evil.example/"})
        bench.server.instead[f"{ISSUES}/7"] = moved
        (look,) = await bench.ask(uuid4().hex, "issue", object_ids=("7",), lookups=("get",))
        assert look.outcome is Outcome.CANNOT_LOOK
        assert "has moved" in look.reason


class TestRefusals:
    @pytest.mark.parametrize("status", [404, 410])
    async def test_a_list_that_is_hidden_is_never_empty(self, bench, status):
        bench.server.instead[DEPLOYMENTS] = Told(status, {"message": "Not Found"})
        (look,) = await bench.ask(uuid4().hex)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "permission" in look.reason

    async def test_a_repository_that_is_hidden_is_never_empty(self, bench):
        (look,) = await bench.ask(uuid4().hex, config={"repository": "acme/secret"})
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, True)
        assert "acme/secret is not visible" in look.reason

    async def test_a_missing_permission_is_named(self, bench):
        needed = {"X-Accepted-GitHub-Permissions": "deployments=read"}
        bench.server.instead[DEPLOYMENTS] = Told(403, {"message": "Resource not …"}, needed)
        (look,) = await bench.ask(uuid4().hex)
        assert look.permanent
        assert "deployments=read" in look.reason

    async def test_single_sign_on_is_named(self, bench):
        sso = {"X-GitHub-SSO": "required; url=https://github.com/orgs/acme/sso"}
        bench.server.instead[DEPLOYMENTS] = Told(403, {}, sso)
        (look,) = await bench.ask(uuid4().hex)
        assert "single sign-on" in look.reason

    @pytest.mark.parametrize(
        ("told", "at_least", "at_most"),
        [
            (Told(403, {"message": "You have exceeded a secondary rate limit"}), 60, 60),
            (Told(429, {"message": "slow down"}), 60, 60),
            (Told(403, {}, {"Retry-After": "17"}), 17, 17),
            (Told(403, {}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "in 90 s"}), 60, 60),
            (Told(403, {}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "+90"}), 80, 91),
        ],
        ids=["secondary", "429", "retry-after", "no reset", "reset"],
    )
    async def test_rate_limits_say_when_to_come_back(self, bench, told, at_least, at_most):
        if told.headers.get("X-RateLimit-Reset") == "+90":
            told.headers["X-RateLimit-Reset"] = str(int(time.time()) + 90)
        bench.server.instead[DEPLOYMENTS] = told
        gate = OpenGate()
        (look,) = await bench.ask(uuid4().hex, gate=gate)
        assert (look.outcome, look.permanent) == (Outcome.CANNOT_LOOK, False)
        assert at_least <= look.retry_after_seconds <= at_most
        assert gate.failures[0].status == 429

    async def test_a_token_that_loses_sight_between_two_looks_is_noticed(self, bench):
        access = access_of(GITHUB, "test", bench.config())
        session = GITHUB.open(access, OpenGate())
        told: list[Look] = []

        async def deliver(answer):
            told.extend(answer.looks)

        try:
            await session.ask([question(uuid4().hex, "deployment")], {}, deliver)
            bench.server.instead["/repos/acme/shop"] = Told(404, {"message": "Not Found"})
            await session.ask([question(uuid4().hex, "deployment")], {}, deliver)
        finally:
            await session.close()
        assert [look.outcome for look in told] == [Outcome.EMPTY, Outcome.CANNOT_LOOK]
