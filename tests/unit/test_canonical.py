"""Strict reading, fingerprints and keys (design: the domain, "Keys" and "Fingerprints")."""

import json
import time
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations.canonical import (
    InvalidJson,
    canonicalize,
    derive_key,
    fingerprint,
    is_reserved_call_id,
    member_text,
    parse_members,
    parse_strict,
    resolve_pointer,
)

DEEPEST = "[" * 64 + "]" * 64
TOO_DEEP = "[" * 65 + "]" * 65

REFUSED = [
    # text, pointer, kind
    ('{"a":1,"a":2}', "/a", "duplicate_key"),
    (r'{"\u0061":1,"a":2}', "/a", "duplicate_key"),
    ('{"list":[0,{"b":NaN}]}', "/list/1/b", "number"),
    ("[-Infinity]", "/0", "number"),
    ("1e400", "", "number"),
    ('{"limit":Infinity}', "/limit", "number"),
    ("9007199254740992.0", "", "number"),
    ("1e20", "", "number"),
    ("-9007199254740993e0", "", "number"),
    ("9007199254740991.5", "", "number"),
    ("1" * 6000, "", "number"),
    (r'{"note":"ok \ud83d"}', "/note", "unicode"),
    (r'{"deep":{"\ude00":1}}', "/deep", "unicode"),
    (TOO_DEEP, "/0" * 64, "depth"),
    ('{"a~b":{"c/d":NaN}}', "/a~0b/c~1d", "number"),
    ('{"path":"/srv/a","recursive":fal', "/recursive", "syntax"),
    ('{"a":1}{"a":1}', "", "syntax"),
    ('{"a":1,}', "", "syntax"),
    ("[1,]", "/1", "syntax"),
    ("01", "", "syntax"),
    ("'a'", "", "syntax"),
    ('"\x01"', "", "syntax"),
    ("", "", "syntax"),
    ("  ", "", "syntax"),
    # no JSON at all, whatever else it breaks
    ('{"a":1,"a":2', "/a", "syntax"),
]


@pytest.mark.parametrize(("text", "pointer", "kind"), REFUSED)
def test_it_refuses_and_names_the_value(text: str, pointer: str, kind: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        parse_strict(text.encode())
    assert (caught.value.pointer, caught.value.kind) == (pointer, kind)
    assert caught.value.reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":"\xff"}', "invalid UTF-8 at byte 6"),
        (b'{"a":"\xed\xa0\x80"}', "invalid UTF-8"),
    ],
)
def test_it_says_what_is_wrong_with_the_encoding(raw: bytes, reason: str) -> None:
    with pytest.raises(InvalidJson, match=reason) as caught:
        parse_strict(raw)
    assert caught.value.kind == "encoding"


def test_a_pointer_starts_where_the_caller_says() -> None:
    with pytest.raises(InvalidJson) as caught:
        parse_strict('{"x":NaN}', at="/args")
    assert caught.value.pointer == "/args/x"


def test_a_lone_surrogate_in_a_python_string_is_refused() -> None:
    with pytest.raises(InvalidJson):
        parse_strict('{"a":"\ud83d"}')
    with pytest.raises(InvalidJson):
        canonicalize({"a": "\ud83d"})


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "[" * 200_000, "1" * 6000])
def test_an_attack_is_refused_quickly(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(InvalidJson):
        parse_strict(text.encode())
    assert time.perf_counter() - started < 0.1


def test_sixty_four_levels_are_read_alone_and_as_a_member() -> None:
    assert parse_strict(DEEPEST)
    assert parse_members(f'{{"args":{DEEPEST}}}')["args"].value
    with pytest.raises(InvalidJson) as caught:
        parse_members(f'{{"args":{TOO_DEEP}}}')
    assert caught.value.pointer == "/args" + "/0" * 64


def test_one_number_has_one_fingerprint_however_it_is_spelled() -> None:
    spellings = {
        fingerprint(parse_strict(f'{{"amount":{n}}}')) for n in ("25000", "25000.0", "2.5e4")
    }
    assert len(spellings) == 1
    value = parse_strict("2.5e4")
    assert (value, type(value)) == (25000, int)


def test_a_number_a_string_and_a_boolean_are_three() -> None:
    assert len({fingerprint(parse_strict(text)) for text in ("1", '"1"', "true")}) == 3


def test_absent_null_and_empty_args_are_three() -> None:
    assert fingerprint(None) != fingerprint({})


def test_big_integers_keep_every_digit() -> None:
    assert canonicalize(parse_strict("9007199254740993")) == b"9007199254740993"
    assert fingerprint(parse_strict("9007199254740993")) != fingerprint(
        parse_strict("9007199254740992")
    )


def test_minus_zero_is_zero() -> None:
    for text in ("-0", "-0.0", "0e5"):
        assert canonicalize(parse_strict(text)) == b"0"
    assert canonicalize(-0.0) == b"0"


def test_names_sort_by_utf16_units() -> None:
    assert canonicalize({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


def test_small_numbers_are_spelled_as_ecmascript_does() -> None:
    assert canonicalize([1e-7, 1e-6, 1.5e-5, -2e-5]) == b"[1e-7,0.000001,0.000015,-0.00002]"


def test_strings_are_not_normalised() -> None:
    assert fingerprint({"to": "caf\u00e9"}) != fingerprint({"to": "cafe\u0301"})


def test_a_nul_character_is_legal() -> None:
    assert canonicalize(parse_strict(r'{"body":"abc\u0000def"}')) == rb'{"body":"abc\u0000def"}'


def test_order_spacing_and_escapes_leave_the_fingerprint_alone() -> None:
    one = parse_strict('{"a":1,"b":"é"}')
    other = parse_strict(r'{ "b" : "\u00e9", "\u0061":1 }')
    assert fingerprint(one) == fingerprint(other)


def test_members_keep_their_exact_text() -> None:
    members = parse_members(b' { "x" : 1 , "args": {"a":1 , "n":2.50}, "k\\u0061":"\xc3\xa9" } ')
    assert {name: member.raw for name, member in members.items()} == {
        "x": b"1",
        "args": b'{"a":1 , "n":2.50}',
        "ka": b'"\xc3\xa9"',
    }
    assert members["args"].value == {"a": 1, "n": 2.5}


@pytest.mark.parametrize("text", ["[1]", "null", "3", '"x"', "true"])
def test_members_are_those_of_an_object(text: str) -> None:
    with pytest.raises(InvalidJson, match="must be an object") as caught:
        parse_members(text)
    assert caught.value.kind == "type"


@pytest.mark.parametrize("text", ["{", '{"a"', '{"a":}', '{"a":1', '{"a":1} x', "{,}", '{"a" 1}'])
def test_members_of_a_broken_object_are_refused(text: str) -> None:
    with pytest.raises(InvalidJson):
        parse_members(text)


def test_the_key_hashes_an_array_not_a_joined_string() -> None:
    expected = sha256(b'["countersign.key.v1","run_7f3",3,"call_abc"]').hexdigest()
    assert derive_key("run_7f3", 3, "call_abc") == expected
    assert derive_key("run_7f3", 3, "call_abc", 0) == expected
    assert derive_key("a", 1, "2:x") != derive_key("a:1", 2, "x")


def test_a_position_is_a_fifth_member_and_stands_in_for_an_empty_id() -> None:
    expected = sha256(b'["countersign.key.v1","r",1,"#2",2]').hexdigest()
    assert derive_key("r", 1, "", 2) == expected
    assert derive_key("r", 1, "", 0) == sha256(b'["countersign.key.v1","r",1,"#0"]').hexdigest()
    assert derive_key("r", 1, "c", 1) != derive_key("r", 1, "c")
    with pytest.raises(ValueError, match="position"):
        derive_key("r", 1, "")


@pytest.mark.parametrize("call_id", ["#2", "#fp:x", "call~edit1", "a\nb~edit12"])
def test_stand_ins_and_edits_are_reserved(call_id: str) -> None:
    assert is_reserved_call_id(call_id)


@pytest.mark.parametrize("call_id", ["call_abc", "a#2", "x~edit", "x~edit1y", "x" * 446])
def test_ids_in_the_wild_are_not(call_id: str) -> None:
    assert not is_reserved_call_id(call_id)


def test_pointers_resolve_or_say_that_nothing_is_there() -> None:
    value = {"a/b": [{"c~d": 5}], "": 1}
    assert resolve_pointer(value, "/a~1b/0/c~0d") == 5
    assert resolve_pointer(value, "") is value
    assert resolve_pointer(value, "/") == 1
    for missing in ("/x", "/a~1b/1", "/a~1b/00", "/a~1b/-", "a", "/a~1b/0/c~0d/e"):
        with pytest.raises(LookupError):
            resolve_pointer(value, missing)


@given(st.text(), st.integers(0, 2**31), st.text(min_size=1), st.integers(1, 9))
def test_the_key_is_what_canonicalize_writes(run: str, step: int, call: str, at: int) -> None:
    members = ["countersign.key.v1", run, step, call]
    assert derive_key(run, step, call) == sha256(canonicalize(members)).hexdigest()
    assert derive_key(run, step, call, at) == sha256(canonicalize([*members, at])).hexdigest()


@pytest.mark.parametrize(
    "text",
    [
        '{"tool":"args","args": {"a" : 1},"x":{"args":2}}',
        '{"x":"\\"args\\"","args": {"a" : 1}}',
        '{"ar\\u0067s": {"a" : 1},"x":"args"}',
        '{ "args" : {"a" : 1} }',
    ],
)
def test_a_members_text_is_found_wherever_its_name_occurs(text: str) -> None:
    assert member_text(text, "args") == '{"a" : 1}'


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda n: not n.is_integer() or not 2**53 <= abs(n) < 1e21
    )
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON, st.booleans())
def test_any_value_keeps_its_fingerprint_through_a_round_trip(
    value: object, ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=1)
    assert fingerprint(parse_strict(text)) == fingerprint(value)
    assert canonicalize(parse_strict(canonicalize(value))) == canonicalize(value)


@settings(deadline=None)
@given(st.text(alphabet='{}[]",:0123456789.eE+-\\utrfalsn \ud83dN', max_size=40))
def test_it_agrees_with_the_library_on_what_json_is(text: str) -> None:
    """Whatever the strict reader accepts the library accepts too, with an equal value."""
    try:
        value = parse_strict(text)
    except InvalidJson:
        return
    assert value == json.loads(text)
