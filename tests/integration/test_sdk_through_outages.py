"""The SDK while people decide, providers lose answers, and the console itself is killed."""

import base64
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import countersign
import httpx
import pytest
from countersign import ClearedCall, Client, Done
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crashlab.demo_agents.reviewer import sshsig
from tests.support.product import Product
from tests.support.sdk_agent import ARGS, CHARGE, AgentProcess
from tests.support.simulated_provider import SimulatedProvider

CATALOGUE = """
tools:
  - name: stripe.charge
    class: idempotent
    provider: stripe
    reconciler: stripe
    key: {accepts: true, retention_hours: 24}
    client_timeout_seconds: 2
    provider_max_seconds: 10
    lease_seconds: 5
    amount: {pointer: /amount, currency_pointer: /currency, unit: minor}
policies:
  - id: asks
    match: {environment: test, tool: mail.asked}
    quorum: 1
    min_custody: A1
    expires_minutes: 30
"""
ASKED = "mail.asked"


class Reviewer:
    """A person at a command line."""

    def __init__(self, product: Product, folder: Path) -> None:
        self._product = product
        self._key = Ed25519PrivateKey.generate()
        line = self._key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        (folder / "reviewer.pub").write_bytes(line)
        product.create_user("rita@example.com", "reviewer", "a-long-password-of-hers")
        product.manage("enrol_key", "rita@example.com", "--ssh-key", str(folder / "reviewer.pub"))
        self._token = product.manage("create_reviewer_token", "rita@example.com").strip()

    def decide(self, approval_id: str, verdict: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._token}"}
        path = f"{self._product.base_url}/api/v1/approvals/{approval_id}"
        asked = httpx.post(
            f"{path}/statement", json={"verdict": verdict, "reason": "seen"}, headers=headers
        )
        if not asked.is_success:
            return asked
        told = asked.json()
        signature = sshsig(self._key, base64.b64decode(told["message_b64"]))
        body = {"statement_id": told["statement_id"], "sshsig": signature}
        return httpx.post(f"{path}/decisions", json=body, headers=headers)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProvider]:
    provider = SimulatedProvider(tmp_path_factory.mktemp("provider")).start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def product(
    own_product: Product, provider: SimulatedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Product:
    folder = tmp_path_factory.mktemp("config")
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    config = f"secret_key: {provider.secret_key}\nbase_url: {provider.url}\n"
    (folder / "stripe.yaml").write_text(config)
    own_product.manage("catalogue", "apply", str(folder / "catalogue.yaml"))
    account = ["stripe", "--environment", "test", "--name", "stripe"]
    own_product.manage("create_provider_account", *account, "--config", str(folder / "stripe.yaml"))
    return own_product


@pytest.fixture(scope="module")
def reviewer(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Reviewer:
    return Reviewer(product, tmp_path_factory.mktemp("reviewer"))


@pytest.fixture(scope="module")
def api_key(product: Product) -> str:
    return product.create_api_key("sdk tests")


@pytest.fixture
def client(product: Product, api_key: str, tmp_path: Path) -> Iterator[Client]:
    with Client(product.base_url, api_key, agent="tests", spool_dir=tmp_path / "spool") as client:
        yield client


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def key(run_id: str) -> str:
    return countersign.derive_key(run_id, 1, "call_1")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


class Effect:
    """Counts."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, cleared: ClearedCall) -> Any:
        self.times += 1
        return {"id": f"m{self.times}"}


def charging(provider: SimulatedProvider, timeout: float = 2) -> Callable[[ClearedCall], Done]:
    def charge(cleared: ClearedCall) -> Done:
        form = cleared.args | {"confirm": "true", "payment_method": "pm_card_visa"}
        headers = {"Idempotency-Key": cleared.idem_key, "Authorization": "Bearer sk_test_sim"}
        answer = httpx.post(
            f"{provider.url}/v1/payment_intents",
            data=form | {"metadata[idem_key]": cleared.idem_key},
            headers=headers,
            timeout=timeout,
        )
        made = answer.raise_for_status().json()
        return Done({"id": made["id"]}, made["id"], made["status"])

    return charge


def ask(threads: ThreadPoolExecutor, client: Client, run_id: str, effect: Any) -> Future[Any]:
    """Starts a call that waits for a person."""
    return threads.submit(client.guard, run_id, 1, "call_1", ASKED, ARGS, effect, timeout=60)


def pending(client: Client, key: str) -> str:
    """The approval that the call waits for."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            approval = client.operation(key)["approval"]
        except countersign.CountersignError:
            approval = None
        if approval:
            return str(approval["id"])
        time.sleep(0.1)
    raise AssertionError("no approval was asked for")


# Lost answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [{"hold_seconds": 4}, {"drop": "after"}, {"commit_after_seconds": 3}]
)
def test_p01_a_slow_charge_is_settled_and_never_made_twice(
    client: Client, provider: SimulatedProvider, run_id: str, key: str, fault: dict[str, Any]
) -> None:
    provider.fault(fault, times=1, metadata={"idem_key": key})
    call = (run_id, 1, "call_1", "stripe.charge", CHARGE, charging(provider))
    done = client.guard(*call, timeout=90)
    again = client.guard(*call)
    assert again.replayed
    assert provider.ledger(marker=key)["count"] == 1
    (effect,) = provider.ledger(marker=key)["effects"]
    assert done.provider_ref == again.provider_ref == effect["object_id"]
    operation = client.operation(key)
    assert operation["state"] == "COMMITTED"
    assert [incident["kind"] for incident in operation["incidents"]] == []


def test_a_sender_killed_after_the_charge_is_settled_for_the_next_one(
    client: Client,
    product: Product,
    api_key: str,
    provider: SimulatedProvider,
    run_id: str,
    key: str,
) -> None:
    given = {"console": product.base_url, "key": api_key, "provider": provider.url}
    given |= {"run": run_id, "tool": "stripe.charge", "mishap": "killed_after_effect"}
    victim = AgentProcess(**given)
    assert victim.ends() == -9
    victim.end()
    done = client.guard(
        run_id, 1, "call_1", "stripe.charge", CHARGE, charging(provider), timeout=90
    )
    assert done.provider_ref is not None
    assert provider.ledger(marker=key)["count"] == 1


# People ------------------------------------------------------------------------------------------


def test_a_waiting_call_runs_once_when_it_is_approved(
    client: Client, reviewer: Reviewer, threads: ThreadPoolExecutor, run_id: str, key: str
) -> None:
    effect = Effect()
    waiting = ask(threads, client, run_id, effect)
    approval = pending(client, key)
    assert reviewer.decide(approval, "approve").status_code == 200
    assert waiting.result(20).result == {"id": "m1"}
    assert effect.times == 1
    assert client.guard(run_id, 1, "call_1", ASKED, ARGS, effect).replayed
    assert effect.times == 1


def test_an_approved_call_is_checked_against_the_consoles_keys(
    product: Product, api_key: str, reviewer: Reviewer, run_id: str, tmp_path: Path
) -> None:
    keys = httpx.get(f"{product.base_url}/.well-known/jwks.json").json()
    call = (run_id, 1, "call_1", ASKED, ARGS)
    where: dict[str, Any] = {"agent": "tests", "spool_dir": tmp_path}
    with Client(product.base_url, api_key, grant_keys={"keys": []}, **where) as distrustful:
        with pytest.raises(countersign.ApprovalPending) as parked:
            distrustful.guard(*call, Effect(), on_wait="park")
        assert reviewer.decide(parked.value.approval_id or "", "approve").status_code == 200
        with pytest.raises(countersign.GrantRefused):
            distrustful.guard(*call, Effect())
    with Client(product.base_url, api_key, grant_keys=keys, **where) as trusting:
        done = trusting.guard(*call, lambda cleared: cleared.grant is not None)
    assert done.value is True
    assert done.attempt_number == 2, "the refused attempt sent nothing, so its approval is good"


def test_a_denied_call_says_who_said_no_and_never_runs(
    client: Client, reviewer: Reviewer, threads: ThreadPoolExecutor, run_id: str, key: str
) -> None:
    effect = Effect()
    waiting = ask(threads, client, run_id, effect)
    assert reviewer.decide(pending(client, key), "deny").status_code == 200
    with pytest.raises(countersign.ApprovalDenied):
        waiting.result(20)
    assert effect.times == 0


def test_a_parked_process_goes_on_where_it_stopped(
    client: Client, reviewer: Reviewer, run_id: str
) -> None:
    effect = Effect()
    call = (run_id, 1, "call_1", ASKED, ARGS, effect)
    with pytest.raises(countersign.ApprovalPending) as parked:
        client.guard(*call, on_wait="park")
    assert parked.value.approval_id is not None
    assert parked.value.url is not None
    assert reviewer.decide(parked.value.approval_id, "approve").status_code == 200
    assert client.guard(*call, on_wait="park").replayed is False
    assert effect.times == 1


def test_a13_an_approval_spent_on_a_run_that_died_is_not_lost_and_not_spent_again(
    client: Client,
    product: Product,
    api_key: str,
    provider: SimulatedProvider,
    reviewer: Reviewer,
    run_id: str,
    key: str,
) -> None:
    given = {"console": product.base_url, "key": api_key, "provider": provider.url}
    given |= {"run": run_id, "tool": ASKED}
    parked = AgentProcess(**given, options={"on_wait": "park"})
    assert parked.says()["error"] == "ApprovalPending"
    parked.end()
    approval = pending(client, key)
    assert reviewer.decide(approval, "approve").status_code == 200
    victim = AgentProcess(**given, mishap="killed_after_effect", options={"lease_seconds": 2})
    assert victim.ends() == -9
    victim.end()
    effect = Effect()
    with pytest.raises(countersign.OutcomeUnknown):
        client.guard(run_id, 1, "call_1", ASKED, ARGS, effect, timeout=8)
    assert effect.times == 0
    assert provider.ledger(intent=key)["count"] == 1
    # The same decision once more changes nothing; what was decided and spent stays to be seen.
    assert reviewer.decide(approval, "approve").status_code == 409
    headers = {"Authorization": f"Bearer {api_key}"}
    path = f"{product.base_url}/api/v1/approvals/{approval}"
    shown = httpx.get(path, headers=headers).json()
    assert (shown["status"], shown["used"]) == ("approved", True)
    assert shown["operation"]["state"] == "UNKNOWN"


# The console dies --------------------------------------------------------------------------------


def test_a10_a_waiting_approval_outlives_every_console_process(
    client: Client,
    product: Product,
    reviewer: Reviewer,
    threads: ThreadPoolExecutor,
    run_id: str,
    key: str,
) -> None:
    effect = Effect()
    waiting = ask(threads, client, run_id, effect)
    approval = pending(client, key)
    for name in ("web-1", "web-2", "sequencer", "worker"):
        product.kill(name)
    product.wait_until_ready()
    assert reviewer.decide(approval, "approve").status_code == 200
    assert waiting.result(60).result == {"id": "m1"}
    assert effect.times == 1


def test_a_report_outlives_the_whole_machine_of_the_console(
    client: Client, product: Product, api_key: str, run_id: str, key: str, tmp_path: Path
) -> None:
    """The last test of the module: it leaves the product at another address."""

    def effect(cleared: ClearedCall) -> str:
        product.kill_supervisor()
        time.sleep(1)
        return "it happened"

    done = client.guard(run_id, 1, "call_1", "mail.untold", ARGS, effect, lease_seconds=120)
    assert (done.value, done.reported) == ("it happened", False)
    with pytest.raises(countersign.ConsoleUnavailable):
        client.operation(key)
    product.start()
    with Client(product.base_url, api_key, agent="tests", spool_dir=tmp_path / "spool") as later:
        assert later.flush(30) == 0
        operation = later.operation(key)
        assert (operation["state"], operation["result"]) == ("COMMITTED", "it happened")
        assert later.guard(run_id, 1, "call_1", "mail.untold", ARGS, effect).replayed
