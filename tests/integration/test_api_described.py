"""What the product answers is what its OpenAPI document says it answers."""

import pytest

from tests.support.api import Api, claim_body
from tests.support.described import Described


@pytest.fixture(scope="module")
def api(live_product):
    return Api(live_product)


@pytest.fixture(scope="module")
def described(api):
    return Described(api.get("/openapi.json").json())


def test_claims_reports_and_reads(api, described):
    run = {"id": "described", "agent": "a", "budget": {"max_steps": 9}}
    body = claim_body(run=run, fenced=True, send_token="t", model_output={"x": 1})
    granted = api.post("/operations", body)
    described.check(granted.json(), "ClaimAnswer")
    key = granted.json()["idem_key"]
    number = {"attempt_number": 1}
    sent = api.post(f"/operations/{key}/sending", {**number, "send_token": "t"})
    beat = api.post(f"/operations/{key}/heartbeat", number)
    done = api.outcome(granted.json(), "committed", result=[1], provider_ref="x")
    for answer in (sent, beat, done):
        assert answer.status_code == 200, answer.text
        described.check(answer.json(), "ReportAnswer")
    described.check(api.post("/operations", body).json(), "ClaimAnswer")
    described.check(api.get(f"/operations/{key}").json(), "Operation")
    doubtful = api.claimed()
    api.outcome(doubtful, "unknown", error={"type": "timeout", "message": "no answer"})
    described.check(api.get(f"/operations/{doubtful['idem_key']}").json(), "Operation")
    described.check(api.get("/operations").json(), "OperationPage")


def test_runs_tools_and_records(api, described):
    api.claimed(run={"id": "listed", "agent": "a"})
    record = {"type": "RUN_STARTED", "record_id": "described-1", "run": {"id": "r", "agent": "a"}}
    batch = api.post("/records?verbose=1", [record, {"type": "NONSENSE"}])
    described.check(batch.json(), "BatchAnswer")
    described.check(api.get("/records/described-1").json(), "RecordStatus")
    described.check(api.get("/runs").json(), "RunPage")
    described.check(api.get("/runs/listed").json(), "RunDocument")
    described.check(api.get("/tools").json(), "ToolPage")


def test_approvals(api, described):
    live = Api(api.product, environment="live")
    asked = live.claim(tool="tests.never-registered")
    assert asked.status_code == 202, asked.text
    described.check(asked.json(), "ClaimAnswer")
    approval = live.get(f"/approvals/{asked.json()['approval']['id']}")
    described.check(approval.json(), "Approval")


def test_problems_and_health(api, described):
    for answer in (
        api.get("/operations/nobody"),
        api.claim(step=True),
        api.post("/operations", b"{"),
        api.get("/nothing"),
    ):
        described.check(answer.json(), "Problem")
    described.check(api.http.get("/healthz").json(), "Health")
    described.check(api.http.get("/readyz").json(), "Health")
    described.check(api.http.get("/.well-known/jwks.json").json(), "Keys")
