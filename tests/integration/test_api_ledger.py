"""The ledger over HTTP: whoever holds a checkpoint can check everything that follows."""

import base64
import secrets
import time

import httpx
import pytest

from operations.ledger import merkle, notes
from tests.support.api import Api, assert_problem


@pytest.fixture(scope="module")
def api(live_product):
    agent = Api(live_product, scopes=("operations:write", "operations:read", "ledger:read"))
    for number in range(6):
        agent.post("/operations", claim(number))
    hasten(live_product)
    return agent


def hasten(product):
    """What people do is published at once, what agents do within a minute."""
    product.create_user(f"{secrets.token_hex(4)}@example.com", "viewer", secrets.token_urlsafe(12))


def claim(number):
    return {
        "run": {"id": "run_ledger", "agent": "tests"}, "step": number, "tool_call_id": f"c{number}",
        "tool": "tests.plain", "args": {"n": number},
    }  # fmt: skip


def unb64(text):
    return base64.b64decode(text, validate=True)


def published(api, at_least=1):
    """The newest checkpoint, opened by the published key."""
    deadline = time.monotonic() + 75
    while True:
        told = api.http.get("/.well-known/ledger-keys.json")
        note = api.http.get("/api/v1/ledger/checkpoint")
        if told.status_code == note.status_code == 200:
            keys = [notes.parse_verifier_key(key) for key in told.json()["vkeys"]]
            assert note.headers["content-type"] == "text/plain; charset=utf-8"
            found = notes.open_checkpoint(note.content, keys, told.json()["origin"])
            if found.size >= at_least:
                return found
        assert time.monotonic() < deadline, note.text
        time.sleep(0.2)


def test_entries_and_proofs_fit_the_checkpoint(api):
    found = published(api)
    told = api.http.get("/api/v1/ledger/entries", params={"from": 0, "to": found.size}).json()
    items = told["items"]
    assert [item["index"] for item in items] == list(range(found.size))
    assert merkle.root_of([unb64(item["leaf_hash"]) for item in items]) == found.root
    for item in items:
        if item["entry"] is not None:
            assert merkle.leaf_hash(item["entry"].encode()) == unb64(item["leaf_hash"])
    index = found.size // 2
    proof = api.http.get(
        "/api/v1/ledger/proof/inclusion", params={"index": index, "size": found.size}
    ).json()
    merkle.verify_inclusion(
        unb64(items[index]["leaf_hash"]), index, found.size,
        [unb64(one) for one in proof["proof"]], found.root,
    )  # fmt: skip


def test_the_log_is_shown_to_have_only_grown(api, live_product):
    held = published(api)
    for number in range(6, 12):
        api.post("/operations", claim(number))
    hasten(live_product)
    later = published(api, held.size + 1)
    proof = api.http.get(
        "/api/v1/ledger/proof/consistency", params={"from": held.size, "to": later.size}
    ).json()
    hashes = [unb64(one) for one in proof["proof"]]
    merkle.verify_consistency(held.size, later.size, held.root, later.root, hashes)
    with pytest.raises(merkle.ProofRefused):
        merkle.verify_consistency(held.size, later.size, b"\x00" * 32, later.root, hashes)


def test_entries_of_another_namespace_are_hashes_only(api, live_product):
    found = published(api)
    stranger = Api(live_product, scopes=("ledger:read",))
    told = stranger.http.get("/api/v1/ledger/entries", params={"to": found.size}).json()
    assert len(told["items"]) == found.size
    assert all(item["entry"] is None for item in told["items"])
    mine = api.http.get("/api/v1/ledger/entries", params={"to": found.size}).json()["items"]
    assert any(item["entry"] is not None for item in mine)
    assert [one["leaf_hash"] for one in mine] == [one["leaf_hash"] for one in told["items"]]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("proof/inclusion", 422, "VALIDATION_ERROR"),
        ("proof/inclusion?index=0&size=99999999", 404, "NOT_FOUND"),
        ("proof/inclusion?index=99999999", 404, "NOT_FOUND"),
        ("proof/consistency?from=0", 404, "NOT_FOUND"),
        ("proof/consistency?from=2&to=1", 404, "NOT_FOUND"),
        ("entries?from=-1", 422, "VALIDATION_ERROR"),
    ],
)
def test_what_cannot_be_proved_is_refused(api, path, status, code):
    published(api)
    assert_problem(api.http.get(f"/api/v1/ledger/{path}"), status, code)


def test_entries_need_the_scope_and_hashes_need_nothing(api, live_product):
    published(api)
    other = Api(live_product)
    assert_problem(other.http.get("/api/v1/ledger/entries"), 403, "SCOPE_MISSING")
    base = f"http://127.0.0.1:{live_product.instance.port}"
    assert httpx.get(f"{base}/api/v1/ledger/checkpoint").status_code == 200
    assert httpx.get(f"{base}/api/v1/ledger/proof/inclusion?index=0").status_code == 200
