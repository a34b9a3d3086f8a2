"""Report mode: arguments and call ids as they come in the wild, kept exactly or as malformed."""

import json

import pytest

from operations import ingest
from operations.actors import Runtime
from operations.models import Operation, Payload, Record
from tests.support.records import (
    incident_kinds,
    key_of,
    read,
    record,
    report,
    runtime,
    statuses,
)

pytestmark = pytest.mark.django_db


def body_of(kind: str) -> bytes:
    return bytes(Payload.objects.get(kind=kind).body or b"")


@pytest.fixture
def who() -> Runtime:
    return runtime()


@pytest.mark.parametrize(
    ("text", "code", "pointer"),
    [
        ('{"limit":Infinity}', "INVALID_ARGS", "/args/limit"),
        (r'{"note":"ok \ud83d"}', "INVALID_ARGS", "/args/note"),
        ('{"a":1,"a":2}', "INVALID_ARGS", "/args/a"),
        ('{"n":9007199254740992.0}', "INVALID_ARGS", "/args/n"),
    ],
)
def test_bad_args_spoil_one_record_and_not_its_batch(
    who: Runtime, text: str, code: str, pointer: str
) -> None:
    """J05, J06: the neighbours are stored, the bad one is kept as it came."""
    bad = json.dumps(record(record_id="bad", call="c2"))[:-1] + f',"args":{text}}}'
    body = f"[{json.dumps(record())},{bad},{json.dumps(record(call='c3'))}]"
    answer = ingest.ingest_records(ingest.split_array(body.encode()), who)
    assert (answer["accepted"], answer["malformed"]) == (2, 1)
    assert answer["results"] == [
        {
            "record_id": "bad",
            "status": "malformed",
            "idem_key": None,
            "code": code,
            "pointer": pointer,
        }
    ]
    assert Operation.objects.count() == 2
    assert bytes(Record.objects.get(record_id="bad").body or b"") == bad.encode()
    kept = ingest.read_record(who.scope, "bad")
    assert kept is not None
    assert (kept["status"], kept["code"], kept["pointer"]) == ("malformed", code, pointer)


@pytest.mark.parametrize("args_raw", ['{"path":"/srv/a","recursive":fal', '{"a":1}{"a":1}', ""])
def test_cut_off_or_glued_args_are_never_repaired(who: Runtime, args_raw: str) -> None:
    """J07."""
    assert statuses(report(who, record(args_raw=args_raw))) == [("malformed", "INVALID_ARGS")]
    assert Operation.objects.count() == 0


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"bogus": 1}, "UNKNOWN_FIELD", "/bogus"),
        ({"run": {"id": "r", "x": 1}}, "UNKNOWN_FIELD", "/run/x"),
        ({"attempt": {"x": 1}}, "UNKNOWN_FIELD", "/attempt/x"),
        ({"type": "TOOL_EXPLODED"}, "VALIDATION_ERROR", "/type"),
        ({"step": "one"}, "VALIDATION_ERROR", "/step"),
        ({"step": None}, "VALIDATION_ERROR", "/step"),
        ({"tool": "no spaces"}, "VALIDATION_ERROR", "/tool"),
        ({"run": None}, "VALIDATION_ERROR", "/run"),
        ({"occurred_at": "yesterday"}, "VALIDATION_ERROR", "/occurred_at"),
        ({"occurred_at": "2026-11-30T10:00:00"}, "VALIDATION_ERROR", "/occurred_at"),
        ({"tool_call_id": None}, "TOOL_CALL_ID_MISSING", "/tool_call_id"),
        ({"idem_key": ".."}, "VALIDATION_ERROR", "/idem_key"),
        ({"tool_call_id": "#2"}, "VALIDATION_ERROR", "/tool_call_id"),
        ({"provider_ref": "a\0b"}, "VALIDATION_ERROR", "/provider_ref"),
    ],
)
def test_what_is_wrong_in_itself_is_malformed(
    who: Runtime, changes: dict, code: str, pointer: str
) -> None:
    answer = report(who, record(**changes))
    assert answer["malformed"] == 1
    assert (answer["results"][0]["code"], answer["results"][0]["pointer"]) == (code, pointer)
    assert Record.objects.get().status == "malformed"


def test_a_record_without_an_id_is_given_one_and_kept_once(who: Runtime) -> None:
    said = record(record_id=None)
    answer = report(who, said, 42, "not json")  # type: ignore[arg-type]
    assert [status for status, _ in statuses(answer)] == ["malformed"] * 3
    assert all(item["record_id"].startswith("sha256:") for item in answer["results"])
    assert [status for status, _ in statuses(report(who, said))] == ["duplicate"]


def test_a_nul_in_args_is_kept(who: Runtime) -> None:
    """J05n."""
    report(who, record("TOOL_COMMITTED", args={"body": "abc\0def"}, result={"x": "\0"}))
    document = read(who, key_of())
    assert document["result"] == {"x": "\0"}
    assert body_of("args") == b'{"body": "abc\\u0000def"}'


def test_one_number_in_three_spellings_is_one_call(who: Runtime) -> None:
    """J01."""
    spellings = ('{"amount":25000}', '{"amount":25000.0}', '{"amount":2.5e4}')
    answer = report(who, *(record(args_raw=text) for text in spellings))
    assert answer["accepted"] == 3
    assert statuses(report(who, record(args={"amount": "25000"}))) == [
        ("incident", "IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_ARGS")
    ]
    assert incident_kinds(who) == [("args_conflict", key_of())]


def test_composed_and_decomposed_spellings_are_two_calls(who: Runtime) -> None:
    """J04: no Unicode normalisation."""
    answer = report(who, record(args={"to": "caf\u00e9"}), record(args={"to": "cafe\u0301"}))
    assert answer["incidents"] == 1


def test_the_fingerprint_survives_storage(who: Runtime) -> None:
    """J10: it is made before storage, and the bytes are kept as they came."""
    from operations.canonical import fingerprint, parse_strict

    report(who, record(args_raw='{"raw":1,"parsed":{"b":1,"a":2}}'))
    body = body_of("args")
    assert fingerprint(parse_strict(body)) == read(who, key_of())["args_fingerprint"]


def test_absent_args_are_not_null_args(who: Runtime) -> None:
    """J09."""
    report(who, record(call="c1"))
    text = json.dumps(record(call="c2"))[:-1] + ',"args":null}'
    report(who, text, record(call="c3", args={}))
    prints = [read(who, key_of(call))["args_fingerprint"] for call in ("c1", "c2", "c3")]
    assert prints[0] is None
    assert len(set(prints)) == 3


@pytest.mark.parametrize("call", ["", None])
def test_an_empty_call_id_is_stood_in_for_by_the_fingerprint(
    who: Runtime, call: str | None
) -> None:
    """I01."""
    args = {"recordName": "acme account"}
    answer = report(who, record(tool_call_id=call, args=args), record(tool_call_id=call, args={}))
    assert answer["accepted"] == 2
    first, second = Operation.objects.order_by("id")
    assert first.tool_call_id == f"#fp:{first.args_fingerprint}"
    assert first.id_missing
    assert first.idem_key != second.idem_key
    # An outcome without an id matches none of them.
    outcome = report(who, record("TOOL_COMMITTED", tool_call_id=call))
    assert statuses(outcome) == [("malformed", "TOOL_CALL_ID_MISSING")]


def test_parallel_calls_of_one_id_are_told_apart_by_position(who: Runtime) -> None:
    """I04."""
    report(
        who,
        record(tool_call_id="search", position=0, args={"q": "X"}),
        record(tool_call_id="search", position=1, args={"q": "Y"}),
    )
    assert Operation.objects.count() == 2
    # Without positions they are one key with two meanings, and a person sees it.
    answer = report(
        who, record(tool_call_id="s", args={"q": 1}), record(tool_call_id="s", args={"q": 2})
    )
    assert answer["incidents"] == 1


def test_a_position_stands_in_for_an_empty_id(who: Runtime) -> None:
    report(who, record(tool_call_id="", position=2, args={}))
    operation = Operation.objects.get()
    assert (operation.tool_call_id, operation.id_missing) == ("#2", False)


def test_nine_identical_calls_are_nine_operations(who: Runtime) -> None:
    """I06."""
    report(who, *(record(call=f"call_{n}", args={"a": 1}) for n in range(9)))
    assert Operation.objects.count() == 9
    assert len(set(Operation.objects.values_list("args_fingerprint", flat=True))) == 1


def test_long_and_odd_call_ids_survive(who: Runtime) -> None:
    """I07."""
    call = "a|b+/ é\u202e" * 50
    report(who, record(call=call))
    assert Operation.objects.get().tool_call_id == call


def test_a_call_id_used_again_at_another_step_is_another_operation(who: Runtime) -> None:
    """I08."""
    report(who, record("TOOL_COMMITTED", call="exec:80", args={"cmd": "a"}))
    report(who, record(call="exec:80", step=2, args={"cmd": "b"}))
    report(who, record(call="exec:80", step=3, args={"cmd": "b"}))
    flags = list(Operation.objects.order_by("step").values_list("flags", flat=True))
    assert flags == [[], ["id_reused"], ["id_reused"]]
