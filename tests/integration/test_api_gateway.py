"""The API from outside: credentials, bodies, methods, and how every refusal looks."""

import gzip
import json
import time

import httpx
import pytest

from tests.support.api import Api, assert_problem, claim_body, make_key, raw_claim


@pytest.fixture(scope="module")
def api(live_product):
    return Api(live_product)


def asked_with(api, authorization):
    headers = {"Authorization": authorization} if authorization is not None else {}
    return httpx.get(f"{api.http.base_url}/api/v1/tools", headers=headers)


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Basic abc", "Bearer cs_test_wrong", "Bearer \u00e9"],
)
def test_a_request_without_a_good_credential_is_401(api, authorization):
    value = authorization.encode("latin-1") if authorization else authorization
    answer = asked_with(api, value)
    assert_problem(answer, 401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_an_expired_key_is_401_and_a_key_ends_on_time(api):
    past, _ = make_key(api.product, expires="now() - interval '1 second'")
    assert_problem(asked_with(api, f"Bearer {past}"), 401, "UNAUTHENTICATED")
    soon, _ = make_key(api.product, expires="now() + interval '1 second'")
    assert asked_with(api, f"Bearer {soon}").status_code == 200
    time.sleep(1.05)
    assert_problem(asked_with(api, f"Bearer {soon}"), 401, "UNAUTHENTICATED")


def test_a_revoked_key_stops_within_two_seconds(api):
    token, namespace = make_key(api.product)
    assert asked_with(api, f"Bearer {token}").status_code == 200
    api.sql("UPDATE operations_apikey SET revoked_at = now() WHERE namespace = %s", namespace)
    time.sleep(2)
    assert_problem(asked_with(api, f"Bearer {token}"), 401, "UNAUTHENTICATED")


def test_a_key_does_only_what_its_scopes_say(api):
    reader = Api(api.product, scopes=("operations:read",))
    writer = Api(api.product, scopes=("operations:write",))
    assert_problem(reader.claim(), 403, "SCOPE_MISSING")
    assert_problem(writer.get("/tools"), 403, "SCOPE_MISSING")
    assert reader.get("/tools").status_code == 200
    assert writer.claim().status_code == 201


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/approvals"),
        ("POST", "/approvals/apr_00000000000000000000000000/statement"),
        ("POST", "/approvals/apr_00000000000000000000000000/decisions"),
    ],
)
def test_an_api_key_never_decides(api, method, path):
    answer = api.http.request(method, f"/api/v1{path}", json={"verdict": "approve"})
    assert_problem(answer, 403, "SCOPE_MISSING")


def test_what_belongs_to_another_namespace_or_environment_does_not_exist(api):
    key = api.claimed()["idem_key"]
    others = (
        Api(api.product),
        Api(api.product, environment="live", namespace=api.namespace),
    )
    for other in others:
        assert_problem(other.get(f"/operations/{key}"), 404, "NOT_FOUND")
        report = {"attempt_number": 1, "outcome": "committed"}
        assert_problem(other.post(f"/operations/{key}/outcome", report), 404, "NOT_FOUND")
        for verb, body in (
            ("sending", {"attempt_number": 1, "send_token": "t"}),
            ("heartbeat", {"attempt_number": 1}),
            ("cancel", {}),
            ("close", {}),
        ):
            assert_problem(other.post(f"/operations/{key}/{verb}", body), 404, "NOT_FOUND")
    assert api.get(f"/operations/{key}").json()["state"] == "INVOKED"


def test_an_unknown_address_is_a_problem_and_not_a_page(api):
    for path in ("/api/v1/nothing", "/api/v2/operations", "/v1/logs", "/.well-known/nothing"):
        assert_problem(api.http.get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/operations", "GET, HEAD, OPTIONS, POST"),
        ("PUT", "/operations/k", "GET, HEAD, OPTIONS"),
        ("GET", "/operations/k/outcome", "OPTIONS, POST"),
        ("PATCH", "/records", "OPTIONS, POST"),
    ],
)
def test_another_method_is_405_and_says_which_are_allowed(api, method, path, allowed):
    answer = api.http.request(method, f"/api/v1{path}")
    assert_problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allowed


def test_head_answers_like_get_without_a_body_and_options_names_the_methods(api):
    head = api.http.head("/api/v1/tools")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0
    options = api.http.options("/api/v1/tools")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize(
    "body",
    [b"{", b"nonsense", b"\xff", b"\xef\xbb\xbf{}", b'{"step":1,"step":1}', b"{} {}"],
)
def test_a_body_that_is_no_json_is_400(api, body):
    assert_problem(api.post("/operations", body), 400, "MALFORMED_JSON")


def test_ambiguous_args_are_422_with_a_pointer(api):
    for args, pointer in (
        ('{"a":1,"\\u0061":2}', "/args/a"),
        ('{"a":[1e400]}', "/args/a/0"),
        ('{"a":"\\udc00"}', "/args/a"),
        ('{"a":' + "9" * 6000 + "}", "/args/a"),
    ):
        problem = assert_problem(api.post("/operations", raw_claim(args)), 422, "INVALID_ARGS")
        assert problem["pointer"] == pointer
    deep = raw_claim("[" * 5000 + "]" * 5000)
    problem = assert_problem(api.post("/operations", deep), 422, "INVALID_ARGS")
    assert problem["pointer"].startswith("/args/0/0")


def test_nul_and_large_integers_in_args_are_taken_exactly(api):
    answer = api.post("/operations", raw_claim('{"s":"a\\u0000b","n":9007199254740993}'))
    assert answer.status_code == 201, answer.text
    other = api.post("/operations", raw_claim('{"s":"a\\u0000b","n":9007199254740992}'))
    assert answer.json()["args_fingerprint"] != other.json()["args_fingerprint"]


def test_unknown_fields_are_named(api):
    problem = assert_problem(api.claim(amount=5), 422, "UNKNOWN_FIELD")
    assert (problem["pointer"], "amount" in problem["detail"]) == ("/amount", True)
    problem = assert_problem(
        api.claim(run={"id": "r", "agent": "a", "owner": 1}), 422, "UNKNOWN_FIELD"
    )
    assert problem["pointer"] == "/run/owner"


def test_a_missing_call_id_says_what_to_do(api):
    for changes in ({"tool_call_id": ...}, {"tool_call_id": ""}, {"tool_call_id": None}):
        problem = assert_problem(api.claim(**changes), 422, "TOOL_CALL_ID_MISSING")
        assert "Persist the call before running it" in problem["detail"]
    assert api.claim(tool_call_id=..., position=2).status_code == 201


def test_bodies_have_bounds_also_when_they_are_packed(api):
    big = json.dumps(claim_body(args={"s": "x" * 1_100_000})).encode()
    assert_problem(api.post("/operations", big), 413, "TOO_LARGE")
    bomb = gzip.compress(b'{"args":"' + b"x" * 50_000_000 + b'"}')
    packed = {"Content-Encoding": "gzip"}
    assert_problem(api.post("/operations", bomb, headers=packed), 413, "TOO_LARGE")
    assert_problem(api.post("/records", bomb, headers=packed), 413, "TOO_LARGE")

    def chunks():
        for _ in range(40):
            yield b" " * 65_536

    streamed = api.http.post(
        "/api/v1/operations", content=chunks(), headers={"Content-Type": "application/json"}
    )
    assert_problem(streamed, 413, "TOO_LARGE")


def test_gzip_is_read_and_other_encodings_are_refused(api):
    body = json.dumps(claim_body()).encode()
    packed = gzip.compress(body)
    assert api.post("/operations", packed, headers={"Content-Encoding": "gzip"}).status_code == 201
    cut = api.post("/operations", packed[:-6], headers={"Content-Encoding": "gzip"})
    assert_problem(cut, 400, "MALFORMED_JSON")
    plain = api.post("/operations", body, headers={"Content-Encoding": "gzip"})
    assert_problem(plain, 400, "MALFORMED_JSON")
    other = api.post("/operations", body, headers={"Content-Encoding": "br"})
    assert_problem(other, 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("Application/JSON;charset=UTF-8", 201),
        ("application/json; charset=latin-1", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/x-ndjson", 415),
    ],
)
def test_content_types(api, content_type, status):
    body = json.dumps(claim_body()).encode()
    answer = api.post("/operations", body, headers={"Content-Type": content_type})
    assert answer.status_code == status
    if status == 415:
        assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


def test_every_answer_has_a_request_id_and_keeps_the_callers(api):
    assert len(api.get("/tools").headers["x-request-id"]) >= 16
    kept = api.http.get("/api/v1/tools", headers={"X-Request-Id": "trace-7.a_b"})
    assert kept.headers["x-request-id"] == "trace-7.a_b"
    replaced = api.http.get("/api/v1/tools", headers={"X-Request-Id": "bad id\tx"})
    assert replaced.headers["x-request-id"] != "bad id\tx"


def test_unknown_and_repeated_query_parameters_are_refused(api):
    assert_problem(api.get("/operations", stat="UNKNOWN"), 422, "UNKNOWN_FIELD")
    assert_problem(api.http.get("/api/v1/operations?limit=1&limit=2"), 422, "VALIDATION_ERROR")
    for query in (
        {"limit": 0},
        {"limit": "x"},
        {"limit": 1000},
        {"state": "LOST"},
        {"cursor": "x"},
    ):
        assert_problem(api.get("/operations", **query), 422, "VALIDATION_ERROR")


def test_addresses_of_later_versions_say_so(api):
    for answer in (api.post("/drills"), api.http.post("/v1/traces", json={})):
        assert "later version" in assert_problem(answer, 404, "NOT_FOUND")["detail"]


def test_probes_and_documents_need_no_credential(live_product):
    base = f"http://127.0.0.1:{live_product.instance.port}"
    assert httpx.get(f"{base}/healthz").json() == {"status": "ok"}
    ready = httpx.get(f"{base}/readyz")
    assert ready.status_code == 200
    assert set(ready.json()["parts"]) == {
        "database", "migrations", "guards", "broker", "sequencer", "sweep",
    }  # fmt: skip
    assert "countersign_http_requests_total" in httpx.get(f"{base}/metrics").text
    keys = httpx.get(f"{base}/.well-known/jwks.json").json()["keys"]
    assert all(key["crv"] == "Ed25519" and "d" not in key for key in keys)
    assert httpx.get(f"{base}/api/v1/openapi.json").json()["openapi"] == "3.1.0"


def test_the_contract_is_a_page_that_fetches_nothing_from_outside(live_product):
    page = httpx.get(f"http://127.0.0.1:{live_product.instance.port}/api/v1/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for bad in ("<script", "<style", "style=", "http://", "https://", "onclick"):
        assert bad not in page.text
    assert 'lang="en"' in page.text
    assert page.text.count("<h1") == 1
    for path in ("/api/v1/operations/{idem_key}/outcome", "/api/v1/records"):
        assert path in page.text


def test_readiness_names_a_guard_that_is_switched_off(api):
    api.sql("ALTER TABLE operations_event DISABLE TRIGGER operations_event_append_only")
    try:
        problem = assert_problem(api.http.get("/readyz"), 503, "UNAVAILABLE")
    finally:
        api.sql("ALTER TABLE operations_event ENABLE TRIGGER operations_event_append_only")
    assert problem["failing"] == ["guards"]
    assert "operations_event_append_only" in problem["parts"]["guards"]["detail"]
    assert api.http.get("/readyz").status_code == 200
