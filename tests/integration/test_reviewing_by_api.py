"""Reviewers at a command line, and what a runtime may never do: the contract, from outside."""

import base64
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.approving import SshKey, stock_verify
from tests.support.product import Product
from tests.support.runtime import Runtime, problem

RULE = """
policies:
  - id: cli
    match: {environment: test, tool: "cli.*"}
    min_custody: A1
"""


class Reviewer:
    """A person with a token and an SSH key, made from the shell alone."""

    def __init__(self, product: Product, folder: Path) -> None:
        self.email = f"cli-{uuid.uuid4().hex[:8]}@example.com"
        product.create_user(self.email, "reviewer", "a long enough password\n")
        self.key = SshKey(folder)
        product.manage("enrol_key", self.email, "--ssh-key", f"{self.key.path}.pub")
        token = product.manage("create_reviewer_token", self.email).strip()
        assert "\n" not in token
        self.http = httpx.Client(
            base_url=product.base_url, headers={"Authorization": f"Bearer {token}"}, timeout=30
        )

    def statement(self, approval_id: str, verdict: str, **more: Any) -> httpx.Response:
        return self.http.post(
            f"/api/v1/approvals/{approval_id}/statement", json={"verdict": verdict, **more}
        )

    def decide(self, approval_id: str, statement_id: str, sshsig: str) -> httpx.Response:
        return self.http.post(
            f"/api/v1/approvals/{approval_id}/decisions",
            json={"statement_id": statement_id, "sshsig": sshsig},
        )

    def sign(self, begun: dict[str, Any]) -> str:
        return self.key.sign(base64.b64decode(begun["message_b64"]))

    def settle(self, approval_id: str, verdict: str, **more: Any) -> httpx.Response:
        begun = self.statement(approval_id, verdict, **more).json()
        return self.decide(approval_id, begun["statement_id"], self.sign(begun))


@pytest.fixture(scope="module")
def rules(live_product: Product, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("rules") / "catalogue.yaml"
    file.write_text(RULE)
    live_product.manage("catalogue", "apply", str(file))


@pytest.fixture(scope="module")
def reviewer(
    live_product: Product, rules: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reviewer]:
    someone = Reviewer(live_product, tmp_path_factory.mktemp("reviewer"))
    yield someone
    someone.http.close()


@pytest.fixture(scope="module")
def agent(live_product: Product, rules: None) -> Iterator[Runtime]:
    runtime = Runtime(live_product.base_url, live_product.create_api_key(environment="test"))
    yield runtime
    runtime.http.close()


def asked(agent: Runtime) -> tuple[dict[str, Any], str]:
    call = agent.new_call(tool="cli.pay")
    answer = agent.claim(call)
    assert answer.status_code == 202, answer.text
    assert answer.json()["decision"] == "await_approval"
    return call, answer.json()["approval"]["id"]


def test_a_reviewer_approves_with_ssh_keygen_and_the_runtime_executes(
    agent: Runtime, reviewer: Reviewer, tmp_path: Path
) -> None:
    call, approval_id = asked(agent)
    listed = reviewer.http.get("/api/v1/approvals", params={"status": "pending"}).json()
    assert approval_id in [one["id"] for one in listed["items"]]

    begun = reviewer.statement(approval_id, "approve", reason="as agreed").json()
    assert set(begun) >= {"statement_id", "message_b64", "statement", "expires_at"}
    assert begun["statement"]["predicate"]["reason"]["text"] == "as agreed"
    sshsig = reviewer.sign(begun)
    done = reviewer.decide(approval_id, begun["statement_id"], sshsig)
    assert done.status_code == 200, done.text
    again = reviewer.decide(approval_id, begun["statement_id"], sshsig)
    assert again.json()["decision_id"] == done.json()["decision_id"]

    document = agent.http.get(f"/api/v1/approvals/{approval_id}").json()
    assert (document["status"], document["used"]) == ("approved", False)
    assert stock_verify(document["decisions"][0], tmp_path)
    granted = agent.claim(call)
    assert granted.status_code == 201
    assert agent.http.get(f"/api/v1/approvals/{approval_id}").json()["used"]
    keys = agent.http.get("/.well-known/jwks.json").json()["keys"]
    assert keys[0]["crv"] == "Ed25519"


def test_a_denial_reaches_the_runtime_as_such(agent: Runtime, reviewer: Reviewer) -> None:
    call, approval_id = asked(agent)
    assert reviewer.settle(approval_id, "deny").status_code == 200
    refused = problem(agent.claim(call), 409, "OPERATION_PREVIOUSLY_FAILED")
    assert refused["failure"] == "denied"
    problem(reviewer.statement(approval_id, "approve"), 409, "ALREADY_DECIDED")


def test_a20_a_runtime_key_never_decides_whatever_it_sends(agent: Runtime) -> None:
    _, approval_id = asked(agent)
    for path, body in (
        ("statement", {"verdict": "approve"}),
        ("decisions", {"statement_id": "sta_x", "sshsig": "x"}),
    ):
        answer = agent.http.post(f"/api/v1/approvals/{approval_id}/{path}", json=body)
        assert answer.status_code == 403, answer.text
    assert agent.http.get("/api/v1/approvals").status_code == 403
    forged = agent.new_call(tool="cli.pay") | {"approved": True}
    problem(agent.http.post("/api/v1/operations", json=forged), 422, "UNKNOWN_FIELD")


def test_a14_only_the_statement_and_the_signature_are_read(
    agent: Runtime, reviewer: Reviewer
) -> None:
    _, approval_id = asked(agent)
    _, other_id = asked(agent)
    begun = reviewer.statement(approval_id, "approve").json()
    extra = reviewer.http.post(
        f"/api/v1/approvals/{approval_id}/decisions",
        json={"statement_id": begun["statement_id"], "sshsig": "x", "args": {"amount": 1}},
    )
    problem(extra, 422, "UNKNOWN_FIELD")
    problem(
        reviewer.decide(other_id, begun["statement_id"], reviewer.sign(begun)),
        409,
        "STATEMENT_STALE",
    )
    problem(reviewer.statement("apr_" + "0" * 26, "deny"), 404, "NOT_FOUND")
    assert agent.http.get(f"/api/v1/approvals/{other_id}").json()["status"] == "pending"


def test_a_wrong_signature_is_refused_with_the_check_that_failed(
    agent: Runtime, reviewer: Reviewer
) -> None:
    _, approval_id = asked(agent)
    begun = reviewer.statement(approval_id, "approve").json()
    message = base64.b64decode(begun["message_b64"])
    wrong = reviewer.key.sign(message, "file")
    refused = problem(
        reviewer.decide(approval_id, begun["statement_id"], wrong), 422, "SIGNATURE_REFUSED"
    )
    assert refused["check"] == "namespace"
    problem(
        reviewer.decide(approval_id, begun["statement_id"], reviewer.sign(begun)),
        409,
        "STATEMENT_STALE",
    )
    begun = reviewer.statement(approval_id, "approve").json()
    broken = reviewer.decide(approval_id, begun["statement_id"], "no armour")
    problem(broken, 400, "SIGNATURE_REFUSED")
    assert reviewer.settle(approval_id, "approve").status_code == 200


def test_a_tool_server_gets_one_grant_and_one_receipt(agent: Runtime, reviewer: Reviewer) -> None:
    call, approval_id = asked(agent)
    early = agent.http.post(f"/api/v1/approvals/{approval_id}/grant", json={"claim_id": "c1"})
    problem(early, 409, "NOT_APPROVED")
    reviewer.settle(approval_id, "approve")
    granted = agent.http.post(
        f"/api/v1/approvals/{approval_id}/grant", json={"claim_id": "c1"}
    ).json()

    def consume(claim_id: str, fingerprint: str) -> httpx.Response:
        return agent.http.post(
            f"/api/v1/grants/{granted['jti']}/consume",
            json={"claim_id": claim_id, "args_fingerprint": fingerprint},
        )

    right = granted["args_fingerprint"]
    problem(consume("c1", "jcs-sha256:" + "0" * 64), 412, "FINGERPRINT_MISMATCH")
    first = consume("c1", right)
    assert first.status_code == 200, first.text
    assert first.json()["attempt_number"] == 1
    assert consume("c1", right).json()["replayed"]
    problem(consume("c2", right), 409, "ALREADY_CONSUMED")
    problem(agent.claim(call | {"attempt": {"id": "other"}}), 409, "ATTEMPT_IN_FLIGHT")


def test_a10_a_waiting_approval_survives_a_restart_of_every_process(
    own_product: Product, tmp_path: Path
) -> None:
    file = tmp_path / "catalogue.yaml"
    file.write_text(RULE)
    own_product.manage("catalogue", "apply", str(file))
    key = own_product.create_api_key(environment="test")
    agent = Runtime(own_product.base_url, key)
    call, approval_id = asked(agent)
    agent.http.close()

    own_product.kill_supervisor()
    own_product.start()

    agent, reviewer = Runtime(own_product.base_url, key), Reviewer(own_product, tmp_path)
    assert agent.claim(call).status_code == 202
    assert reviewer.settle(approval_id, "approve").status_code == 200
    assert agent.claim(call).status_code == 201
    agent.http.close()
    reviewer.http.close()
