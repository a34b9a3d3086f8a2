"""Operations settled by the real engine against other providers than Stripe, each a real server."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import F

from reconcilers import accounts
from reconcilers.models import Finding
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.github_server import GitHubServer, issue_body
from tests.support.postmark_server import PostmarkServer
from tests.support.reconciling import Call, World, look_now, publish, travel
from tests.support.temporal_server import TemporalServer

pytestmark = pytest.mark.django_db

PAST_SETTLING = 1200
SIX_SECONDS = timedelta(seconds=6)


def tool(provider: str, kind: str, **changes: Any) -> dict[str, Any]:
    known = {
        "tool_class": "unsafe",
        "provider": provider,
        "reconciler": provider,
        "provider_object": kind,
        "client_timeout_seconds": 1,
        "provider_max_seconds": 900,
        "lease_seconds": 30,
    }
    return known | changes


@pytest.fixture
def world() -> World:
    publish(
        order__start=tool("temporal", "workflow"),
        order__retry=tool("temporal", "workflow", tool_class="idempotent"),
        mail__send=tool("postmark", "email"),
        deploy=tool("github", "deployment"),
        ticket__open=tool("github", "issue"),
    )
    nowhere: Any = SimpleNamespace(url="http://127.0.0.1:1")
    return World(nowhere)


def account(world: World, kind: str, document: dict[str, Any]) -> None:
    accounts.create_account(
        kind, environment="test", namespace=world.namespace, name=kind, document=document
    )


@pytest.fixture
def temporal(world: World) -> Iterator[TemporalServer]:
    server = TemporalServer().start_serving()
    access = {"target": server.target, "namespace": server.namespace, "api_key": server.api_key}
    account(world, "temporal", access)
    yield server
    server.stop()


@pytest.fixture
def postmark(world: World) -> Iterator[PostmarkServer]:
    server = PostmarkServer()
    server.start()
    account(world, "postmark", {"server_token": server.token, "base_url": server.url})
    yield server
    server.stop()


@pytest.fixture
def github(world: World) -> Iterator[GitHubServer]:
    server = GitHubServer()
    server.start()
    access = {"token": server.token, "repository": server.repository, "base_url": server.url}
    account(world, "github", access)
    yield server
    server.stop()


def verdict(call: Call) -> tuple[str, str, str]:
    operation = call.operation
    return operation.state, operation.verdict["kind"], operation.verdict["sentence"]


def two_reads(call: Call) -> None:
    """Two looks that are far enough apart to agree, without the wait between them."""
    look_now(call)
    earlier = {"started_at": F("started_at") - SIX_SECONDS, "ended_at": F("ended_at") - SIX_SECONDS}
    Finding.objects.filter(operation=call.id).update(**earlier)
    look_now(call)


class TestTemporal:
    def test_a_workflow_that_completed_settles_it(self, world, temporal):
        call = world.doubtful("order.start")
        run = temporal.start(call.key)
        look_now(call)
        state, kind, sentence = verdict(call)
        assert (state, kind) == ("UNKNOWN", "in_flight")
        assert f"Temporal has {run.run_id}/{call.key} with status running" in sentence
        run.close("completed")
        look_now(call)
        state, kind, sentence = verdict(call)
        assert (state, kind) == ("COMMITTED", "committed")
        assert sentence.startswith("It happened: Temporal's answer by workflow id shows")

    def test_one_that_failed_is_for_a_person(self, world, temporal):
        call = world.doubtful("order.start")
        temporal.start(call.key).close("failed")
        look_now(call)
        state, kind, sentence = verdict(call)
        assert (state, kind) == ("UNKNOWN", "needs_human")
        assert "its effect was then refused or undone" in sentence

    def test_two_reads_after_the_settle_point_prove_that_it_was_never_started(
        self, world, temporal
    ):
        call = world.doubtful("order.retry")
        look_now(call)
        assert verdict(call)[1] == "waiting"
        travel(call, PAST_SETTLING)
        two_reads(call)
        state, kind, sentence = verdict(call)
        assert (state, kind) == ("PENDING", "absent")
        assert "Temporal's answer by workflow id found nothing at" in sentence

    def test_what_the_namespace_may_have_forgotten_is_never_absent(self, world, temporal):
        temporal.retention_days = 0.001
        call = world.doubtful("order.retry")
        travel(call, PAST_SETTLING)
        look_now(call)
        state, kind, sentence = verdict(call)
        assert (state, kind) == ("UNKNOWN", "cannot_look")
        assert "has forgotten workflows" in sentence

    def test_the_late_start_of_a_released_call_is_seen_beside_the_second_one(self, world, temporal):
        call = world.doubtful("order.retry")
        travel(call, PAST_SETTLING)
        two_reads(call)
        assert call.operation.state == "PENDING"
        again = call.again()
        late, second = temporal.start(call.key), temporal.start(call.key)
        late.close("completed")
        second.close("completed")
        again.report("unknown", error={"type": "timeout", "message": "no answer"})
        look_now(call)
        state, kind, sentence = verdict(call)
        assert (state, kind) == ("UNKNOWN", "duplicate")
        assert late.run_id in sentence
        assert second.run_id in sentence


class TestPostmark:
    def test_a_mail_in_the_log_settles_it(self, world, postmark):
        call = world.doubtful("mail.send")
        postmark.send({"idem_key": call.key})
        look_now(call)
        assert verdict(call)[:2] == ("COMMITTED", "committed")

    def test_an_empty_log_never_proves_anything(self, world, postmark):
        call = world.doubtful("mail.send")
        for _ in range(2):
            travel(call, PAST_SETTLING)
            look_now(call)
        state, kind, sentence = verdict(call)
        assert state == "UNKNOWN"
        assert kind in {"waiting", "needs_human"}
        assert "cannot prove absence" in sentence

    def test_two_mails_with_one_key_are_a_duplicate(self, world, postmark):
        call = world.doubtful("mail.send")
        for _ in range(2):
            postmark.send({"idem_key": call.key})
        look_now(call)
        assert verdict(call)[1] == "duplicate"
        assert call.incidents


class TestGitHub:
    def test_deployments_and_issues_settle_at_one_repository(self, world, github):
        deploy, ticket = world.doubtful("deploy"), world.doubtful("ticket.open")
        deployment = github.deploy({"idem_key": deploy.key}, "queued")
        github.open_issue(issue_body(ticket.key))
        look_now(deploy, ticket)
        assert verdict(deploy)[:2] == ("UNKNOWN", "in_flight")
        assert verdict(ticket)[:2] == ("COMMITTED", "committed")
        github.report(deployment["id"], "success")
        look_now(deploy)
        assert verdict(deploy)[:2] == ("COMMITTED", "committed")

    def test_a_repository_that_is_hidden_is_never_empty(self, world, github):
        call = world.doubtful("deploy")
        github.repository = "acme/renamed"
        look_now(call)
        state, kind, sentence = verdict(call)
        assert (state, kind) == ("UNKNOWN", "cannot_look")
        assert "is not visible to this token" in sentence
