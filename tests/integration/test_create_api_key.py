"""`manage.py create_api_key`: the key once, alone, on stdout."""

import httpx
import pytest

from tests.support.product import ProductFailed


def test_the_printed_key_works_and_is_stored_only_as_a_digest(live_product):
    printed = live_product.manage(
        "create_api_key", "--name", "billing", "--environment", "live", "--namespace", "shop",
        "--scopes", "operations:read", "--expires-in-days", "30",
    )  # fmt: skip
    token = printed.strip()
    assert printed == f"{token}\n"
    assert token.startswith("cs_live_")
    base = f"http://127.0.0.1:{live_product.instance.port}/api/v1"
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{base}/tools", headers=headers).status_code == 200
    refused = httpx.post(f"{base}/records", headers=headers, json=[{}])
    assert refused.json()["code"] == "SCOPE_MISSING"
    dump = live_product.manage("dumpdata", "operations.ApiKey")
    assert token not in dump
    assert token[20:] not in dump


@pytest.mark.parametrize(
    "words",
    [
        ["--name", "x", "--environment", "prod"],
        ["--name", "x", "--environment", "test", "--scopes", "operations:all"],
        ["--name", "x", "--environment", "test", "--scopes", ""],
        ["--name", " ", "--environment", "test"],
        ["--environment", "test"],
    ],
)
def test_a_wrong_word_is_said_on_stderr_and_nothing_is_printed(live_product, words):
    with pytest.raises(ProductFailed) as caught:
        live_product.manage("create_api_key", *words)
    # What a command printed stands between its name and what it said on stderr.
    assert "cs_test_" not in str(caught.value)
    assert "rror" in str(caught.value)
