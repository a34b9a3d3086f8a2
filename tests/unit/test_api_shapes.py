"""Request bodies: what is refused, under which code, and with which pointer."""

import json

import pytest

from console.api import shapes
from console.api.claim_bodies import claim_request
from console.api.problems import Problem

CLAIM = {
    "run": {"id": "run_1", "agent": "renewals"},
    "step": 3,
    "tool_call_id": "call_abc",
    "tool": "stripe.charge",
    "args": {"amount": 25000},
}


def body(**changes: object) -> bytes:
    return json.dumps({**CLAIM, **changes}).encode()


def refused(raw: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        claim_request(raw)
    return caught.value


def test_the_smallest_claim_is_taken_with_its_defaults():
    claim = claim_request(json.dumps(CLAIM).encode())
    assert (claim.run_id, claim.agent, claim.step) == ("run_1", "renewals", 3)
    assert (claim.executor, claim.fenced, claim.attempt_id) == ("self", False, None)


def test_args_are_kept_as_the_exact_text_that_was_sent():
    raw = json.dumps(CLAIM).encode().replace(b'{"amount": 25000}', b'{ "amount" :2.5e4 , "b":[] }')
    claim = claim_request(raw)
    assert claim.args_raw == b'{ "amount" :2.5e4 , "b":[] }'
    assert claim.args == {"amount": 25000, "b": []}


def test_absent_null_and_empty_arguments_are_three_different_things():
    assert claim_request(body(args=None)).args is None
    assert claim_request(body(args=None)).args_raw == b"null"
    assert claim_request(body(args={})).args_raw == b"{}"
    absent = json.dumps({name: value for name, value in CLAIM.items() if name != "args"})
    with pytest.raises(Problem) as refused:
        claim_request(absent.encode())
    assert refused.value.extra["pointer"] == "/args"


def test_args_raw_stands_in_for_args():
    raw = {k: v for k, v in CLAIM.items() if k != "args"} | {"args_raw": '{"n": 9007199254740993}'}
    claim = claim_request(json.dumps(raw).encode())
    assert claim.args == {"n": 9007199254740993}
    assert claim.args_raw == b'{"n": 9007199254740993}'


def test_nul_is_legal_in_args_and_nowhere_a_column_would_hold_it():
    assert claim_request(body(args={"a": "x\x00y"})).args == {"a": "x\x00y"}
    assert claim_request(body(reason="x\x00y")).reason == "x\x00y"
    assert (refused(body(goal="x\x00y")).code) == "VALIDATION_ERROR"


def test_null_means_left_out():
    claim = claim_request(body(compensates=None, idem_key=None, position=None, attempt=None))
    assert (claim.compensates, claim.idem_key, claim.position) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"run": None}, "/run"),
        ({"run": []}, "/run"),
        ({"run": {"agent": "a"}}, "/run/id"),
        ({"run": {"id": "r"}}, "/run/agent"),
        ({"run": {"id": "", "agent": "a"}}, "/run/id"),
        ({"run": {"id": "r", "agent": "a", "trigger": "t" * 256}}, "/run/trigger"),
        ({"run": {"id": "r", "agent": "a", "budget": {"max_steps": -1}}}, "/run/budget/max_steps"),
        (
            {"run": {"id": "r", "agent": "a", "budget": {"max_spend_minor": 1}}},
            "/run/budget/currency",
        ),
        ({"step": True}, "/step"),
        ({"step": "3"}, "/step"),
        ({"step": -1}, "/step"),
        ({"step": 2**31}, "/step"),
        ({"step": 1.5}, "/step"),
        ({"step": None}, "/step"),
        ({"position": -1}, "/position"),
        ({"position": False}, "/position"),
        ({"tool": ""}, "/tool"),
        ({"tool": "pаyments.refund"}, "/tool"),  # a Cyrillic а
        ({"tool": "a b"}, "/tool"),
        ({"tool": "a\n"}, "/tool"),
        ({"tool": "t" * 201}, "/tool"),
        ({"lease_seconds": 0}, "/lease_seconds"),
        ({"lease_seconds": 3601}, "/lease_seconds"),
        ({"lease_seconds": True}, "/lease_seconds"),
        ({"idem_key": ""}, "/idem_key"),
        ({"idem_key": "."}, "/idem_key"),
        ({"idem_key": ".."}, "/idem_key"),
        ({"idem_key": "k" * 256}, "/idem_key"),
        ({"idem_key": "a/b"}, "/idem_key"),
        ({"idem_key": "schlüssel"}, "/idem_key"),
        ({"fenced": 1}, "/fenced"),
        ({"send_token": ""}, "/send_token"),
        ({"redacted": "/a"}, "/redacted"),
        ({"redacted": ["/a", 1]}, "/redacted/1"),
        ({"attempt": {"id": 1}}, "/attempt/id"),
        ({"args_raw": "{}"}, "/args_raw"),
        ({"tool_call_id": "#2"}, "/tool_call_id"),
        ({"tool_call_id": 7}, "/tool_call_id"),
    ],
)
def test_a_bad_value_is_a_validation_error_with_its_pointer(changes, pointer):
    problem = refused(body(**changes))
    assert (problem.status, problem.code) == (422, "VALIDATION_ERROR")
    assert problem.extra["pointer"] == pointer


@pytest.mark.parametrize("key", ["a", "...", "a.b", ":", "A-b_c:9", "k" * 255])
def test_keys_of_runtimes_may_hold_what_stripe_allows(key):
    assert claim_request(body(idem_key=key)).idem_key == key


@pytest.mark.parametrize(
    ("changes", "pointer", "name"),
    [
        ({"amount": 1}, "/amount", "amount"),
        ({"run": {"id": "r", "agent": "a", "owner": "x"}}, "/run/owner", "owner"),
        ({"run": {"id": "r", "agent": "a", "budget": {"usd": 1}}}, "/run/budget/usd", "usd"),
        ({"attempt": {"number": 1}}, "/attempt/number", "number"),
        ({"a/b~": 1}, "/a~1b~0", "a/b~"),
    ],
)
def test_an_unknown_field_is_refused_by_its_name(changes, pointer, name):
    problem = refused(body(**changes))
    assert (problem.status, problem.code) == (422, "UNKNOWN_FIELD")
    assert problem.extra["pointer"] == pointer
    assert name in problem.detail


@pytest.mark.parametrize("missing", [None, ""])
def test_a_call_without_id_or_position_is_told_what_to_do(missing):
    problem = refused(body(tool_call_id=missing))
    assert (problem.status, problem.code) == (422, "TOOL_CALL_ID_MISSING")
    assert "Persist the call before running it" in problem.detail
    assert "`position`" in problem.detail


def test_a_position_stands_in_for_an_empty_call_id():
    claim = claim_request(body(tool_call_id="", position=2))
    assert (claim.tool_call_id, claim.position) == ("", 2)


@pytest.mark.parametrize(
    ("args", "pointer"),
    [
        ('{"a":1,"a":2}', "/args/a"),
        ('{"x":{"\\u0061":1,"a":2}}', "/args/x/a"),
        ('{"n":NaN}', "/args/n"),
        ('{"n":-Infinity}', "/args/n"),
        ('{"n":1e400}', "/args/n"),
        ('{"n":9007199254740992.0}', "/args/n"),
        ('{"s":"\\ud800"}', "/args/s"),
        ('["ok",NaN]', "/args/1"),
        ('{"n":' + "9" * 6000 + "}", "/args/n"),
    ],
)
def test_ambiguous_args_are_invalid_wherever_they_stand(args, pointer):
    as_member = json.dumps(CLAIM).encode().replace(b'{"amount": 25000}', args.encode())
    as_text = {k: v for k, v in CLAIM.items() if k != "args"} | {"args_raw": args}
    for raw in (as_member, json.dumps(as_text).encode()):
        problem = refused(raw)
        assert (problem.status, problem.code) == (422, "INVALID_ARGS")
        assert problem.extra["pointer"] == pointer


def test_args_nested_too_deep_are_invalid_args():
    deep = b"[" * 5000 + b"]" * 5000
    as_member = json.dumps(CLAIM).encode().replace(b'{"amount": 25000}', deep)
    as_text = {k: v for k, v in CLAIM.items() if k != "args"} | {"args_raw": deep.decode()}
    for raw in (as_member, json.dumps(as_text).encode()):
        problem = refused(raw)
        assert (problem.status, problem.code) == (422, "INVALID_ARGS")
        assert problem.extra["pointer"].startswith("/args")


def test_half_a_surrogate_pair_around_args_raw_is_invalid_args():
    without = {k: v for k, v in CLAIM.items() if k != "args"}
    problem = refused(json.dumps({**without, "args_raw": "\ud800{}"}).encode())
    assert (problem.code, problem.extra["pointer"]) == ("INVALID_ARGS", "/args")


def test_args_raw_that_is_no_json_is_invalid_args():
    without = {k: v for k, v in CLAIM.items() if k != "args"}
    for text in ("{", "{} x", "\ufeff{}"):
        problem = refused(json.dumps({**without, "args_raw": text}).encode())
        assert (problem.status, problem.code) == (422, "INVALID_ARGS")
        assert problem.extra["pointer"] == "/args"


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"not json",
        b'{"args":{"a":1',
        b"\xef\xbb\xbf{}",
        b'{"step":"\xff"}',
        b'{"step":1} trailing',
        b'{"step":1,"step":2}',
        b'{"step":NaN}',
        b'{"run":{"id":"\\ud800","agent":"a"}}',
    ],
)
def test_a_body_that_is_no_json_or_ambiguous_outside_args_is_malformed(raw):
    problem = refused(raw)
    assert (problem.status, problem.code) == (400, "MALFORMED_JSON")


@pytest.mark.parametrize("raw", [b"[]", b"1", b'"x"', b"null"])
def test_a_body_that_is_no_object_is_a_validation_error(raw):
    problem = refused(raw)
    assert (problem.status, problem.code) == (422, "VALIDATION_ERROR")


def test_a_long_call_id_from_the_wild_is_taken():
    assert claim_request(body(tool_call_id="c" * 446)).tool_call_id == "c" * 446


def test_an_outcome_needs_its_attempt_number_and_a_known_word():
    for changed in ({"outcome": "committed"}, {"attempt_number": 1, "outcome": "done"}):
        with pytest.raises(Problem) as caught:
            shapes.read(shapes.OUTCOME, json.dumps(changed).encode())
        assert caught.value.code == "VALIDATION_ERROR"
