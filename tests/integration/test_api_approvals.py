"""Approvals over HTTP: an agent waits, a reviewer signs at a command line, the agent goes on."""

import base64
import secrets
import subprocess
import threading
import time

import httpx
import pytest

from tests.support.api import Api, assert_problem

NOBODY = "apr_00000000000000000000000000"


@pytest.fixture(scope="module")
def api(live_product):
    return Api(live_product, environment="live")


class Reviewer:
    """A person with an SSH key and a token."""

    def __init__(self, product, folder):
        self.key = folder / f"key-{secrets.token_hex(4)}"
        email = f"{secrets.token_hex(4)}@example.com"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True
        )
        product.create_user(email, "reviewer", secrets.token_urlsafe(12))
        product.manage("enrol_key", email, "--ssh-key", f"{self.key}.pub")
        self.token = product.manage("create_reviewer_token", email).strip()
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{product.instance.port}/api/v1",
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=20,
        )

    def statement(self, approval, verdict="approve"):
        return self.http.post(
            f"/approvals/{approval}/statement", json={"verdict": verdict, "reason": "it is right"}
        )

    def sign(self, statement):
        message = self.key.with_suffix(".message")
        message.write_bytes(base64.b64decode(statement["message_b64"]))
        message.with_suffix(".message.sig").unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "decision.v1@countersign", "-f"]
        subprocess.run([*command, str(self.key), str(message)], check=True, capture_output=True)
        return message.with_suffix(".message.sig").read_text()

    def decide(self, approval, verdict="approve"):
        told = self.statement(approval, verdict)
        assert told.status_code == 200, told.text
        body = {
            "statement_id": told.json()["statement_id"], "sshsig": self.sign(told.json()),
        }  # fmt: skip
        return self.http.post(f"/approvals/{approval}/decisions", json=body)


@pytest.fixture(scope="module")
def reviewer(live_product, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviewer")
    # A software key is A1, which the default rule does not take.
    policy = folder / "policy.yaml"
    policy.write_text(
        "tools: []\npolicies:\n"
        "  - {id: ssh, match: {tool: tests.gated}, tier: T2, quorum: 1, min_custody: A1,"
        " expires_minutes: 30}\n"
    )
    live_product.manage("catalogue", "apply", str(policy))
    person = Reviewer(live_product, folder)
    yield person
    person.http.close()


def gated(api, **changes):
    answer = api.claim(tool="tests.gated", **changes)
    assert answer.status_code == 202, answer.text
    return answer.json()


def test_an_agent_waits_until_a_person_has_signed_and_then_may_execute(api, reviewer):
    run = {"id": f"run-{secrets.token_hex(4)}", "agent": "a"}
    asked = gated(api, run=run)
    assert asked["decision"] == "await_approval"
    approval = asked["approval"]["id"]
    document = api.get(f"/approvals/{approval}").json()
    assert (document["status"], document["used"]) == ("pending", False)
    assert document["version"] == document["operation"]["version"]
    heard = {}

    def wait(name, path):
        answer = api.get(path, wait=20, since=document["version"])
        heard[name] = (time.perf_counter(), answer.json())

    paths = {"operation": f"/operations/{asked['idem_key']}", "approval": f"/approvals/{approval}"}
    agents = [threading.Thread(target=wait, args=item) for item in paths.items()]
    for agent in agents:
        agent.start()
    time.sleep(0.5)
    assert heard == {}
    decided = reviewer.decide(approval)
    answered = time.perf_counter()
    assert decided.status_code == 200, decided.text
    for agent in agents:
        agent.join()
    assert max(at for at, _ in heard.values()) - answered < 1.5
    found = heard["approval"][1]
    assert found["status"] == "approved"
    assert found["decisions"][0]["sshsig"].startswith("-----BEGIN SSH SIGNATURE-----")
    granted = api.claim(tool="tests.gated", run=run)
    assert granted.status_code == 201, granted.text
    assert granted.json()["grant"]


def test_a_denied_call_is_over(api, reviewer):
    run = {"id": f"run-{secrets.token_hex(4)}", "agent": "a"}
    approval = gated(api, run=run)["approval"]["id"]
    assert reviewer.decide(approval, "deny").status_code == 200
    problem = assert_problem(
        api.claim(tool="tests.gated", run=run), 409, "OPERATION_PREVIOUSLY_FAILED"
    )
    assert problem["failure"] == "denied"
    assert problem["retryable"] is False


def test_reviewers_list_what_waits_and_read_every_scope(api, reviewer):
    gated(api)
    approval = gated(api)["approval"]["id"]
    listed = reviewer.http.get("/approvals", params={"status": "pending"}).json()
    assert approval in {item["id"] for item in listed["items"]}
    assert reviewer.http.get(f"/approvals/{approval}").json()["id"] == approval
    page = reviewer.http.get("/approvals", params={"limit": 1}).json()
    assert len(page["items"]) == 1
    assert page["next_cursor"]


def test_a_reviewer_token_is_no_api_key(reviewer):
    for path in ("/operations", "/runs", "/tools"):
        assert_problem(reviewer.http.get(path), 403, "SCOPE_MISSING")
    answer = reviewer.http.post("/operations", json={})
    assert_problem(answer, 403, "SCOPE_MISSING")


def test_a_foreign_or_unknown_approval_does_not_exist(api, reviewer):
    other = Api(api.product, environment="live")
    approval = gated(other)["approval"]["id"]
    for handle in (approval, NOBODY, "nonsense"):
        assert_problem(api.get(f"/approvals/{handle}"), 404, "NOT_FOUND")
        grant = api.post(f"/approvals/{handle}/grant", {"claim_id": "c"})
        assert_problem(grant, 404, "NOT_FOUND")
    assert_problem(reviewer.statement(NOBODY), 404, "NOT_FOUND")
    consumed = {"claim_id": "c", "args_fingerprint": "jcs-sha256:" + "0" * 64}
    assert_problem(api.post("/grants/grt_nobody/consume", consumed), 404, "NOT_FOUND")


def test_bodies_of_decisions_are_checked(api, reviewer):
    approval = gated(api)["approval"]["id"]
    wrong = reviewer.http.post(f"/approvals/{approval}/statement", json={"verdict": "maybe"})
    assert_problem(wrong, 422, "VALIDATION_ERROR")
    surplus = {"statement_id": "x", "sshsig": "y", "verdict": "approve"}
    answer = reviewer.http.post(f"/approvals/{approval}/decisions", json=surplus)
    assert_problem(answer, 422, "UNKNOWN_FIELD")
    told = reviewer.statement(approval).json()
    body = {"statement_id": told["statement_id"], "sshsig": "nonsense"}
    answer = reviewer.http.post(f"/approvals/{approval}/decisions", json=body)
    assert_problem(answer, 400, "SIGNATURE_REFUSED")


def test_a_tool_server_spends_a_grant_once(api, reviewer):
    asked = gated(api, executor="tool-server")
    approval = asked["approval"]["id"]
    assert reviewer.decide(approval).status_code == 200
    minted = api.post(f"/approvals/{approval}/grant", {"claim_id": "one"})
    assert minted.status_code == 200, minted.text
    path = f"/grants/{minted.json()['jti']}/consume"
    body = {"claim_id": "one", "args_fingerprint": asked["args_fingerprint"]}
    wrong = {**body, "args_fingerprint": "jcs-sha256:" + "0" * 64}
    assert_problem(api.post(path, wrong), 412, "FINGERPRINT_MISMATCH")
    receipt = api.post(path, body)
    assert receipt.status_code == 200, receipt.text
    again = api.post(path, body)
    assert (again.status_code, again.json()["replayed"]) == (200, True)
    assert_problem(api.post(path, {**body, "claim_id": "two"}), 409, "ALREADY_CONSUMED")
