"""`text/v1`: everything is seen, nothing is interpreted, and the digest binds what was seen."""

import json
import time
from hashlib import sha256
from typing import Any

import pytest

from approvals import display, glyphs
from approvals.display import Display

FACTS = {"tool": '"stripe.charge"'}


def shown(args: Any, **options: Any) -> Display:
    return display.render(FACTS, args, **options)


#: The golden fixtures of the design: value, what must stand in the text, warnings.
GOLDEN = [
    ("p\u0430ypal.com", '"p\u0430ypal.com"', {"MIXED_SCRIPT", "CONFUSABLE"}),
    ("invoice\u202egpj.exe", r'"invoice\u{202E}gpj.exe"', {"BIDI"}),
    ("acme\u200bcorp", r'"acme\u{200B}corp"', {"INVISIBLE"}),
    ("ＡＣＭＥ", '"ＡＣＭＥ"', {"CONFUSABLE"}),
    ("DE89\u00a03704", r'"DE89\u{00A0}3704"', {"INVISIBLE"}),
    ("cafe\u0301", '"cafe\u0301"', {"NON_NFC"}),
    ("محمد", "\u2068" + '"محمد"' + "\u2069", set()),
    ("ok\U000e0041\U000e0042", r'"ok\u{E0041}\u{E0042}"', {"INVISIBLE"}),
    ("soft\u00adhyphen", r'"soft\u{00AD}hyphen"', {"INVISIBLE"}),
    ("isolate\u2066x\u2069", r'"isolate\u{2066}x\u{2069}"', {"BIDI"}),
    ('=HYPERLINK("http://x","y")', r'"=HYPERLINK(\"http://x\",\"y\")"', set()),
    ("<b hx-post=/x hx-trigger=load>", '"<b hx-post=/x hx-trigger=load>"', set()),
    ("<!channel>", '"<!channel>"', set()),
    ("\x1b[31mred", r'"\u001b[31mred"', {"INVISIBLE"}),
    ("https://bank@evil.example/", '"https://bank@evil.example/"', {"URL_USERINFO"}),
    ('{"to":"other"}', r'"{\"to\":\"other\"}"', {"NESTED_JSON"}),
    ("аосе", '"аосе"', {"CONFUSABLE"}),
    (9007199254740993, "9007199254740993", {"BIGINT"}),
    ("plain text, nothing odd", '"plain text, nothing odd"', set()),
    ("Ünïcödé Москва 東京", '"Ünïcödé Москва 東京"', set()),
    (None, "null", set()),
    (False, "false", set()),
    ("", '""', set()),
    ("100", '"100"', set()),
    (100, "100", set()),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text", "warnings"), GOLDEN)
def test_a_value_is_shown_exactly_and_warned_about(
    value: Any, text: str, warnings: set[str]
) -> None:
    seen = shown({"x": value})
    assert f"/x = {text}\n" in seen.text
    assert set(seen.warnings) == warnings


def test_a_literal_escape_cannot_pass_for_a_hidden_character() -> None:
    literal, hidden = shown({"x": r"a\u{202E}b"}), shown({"x": "a\u202eb"})
    assert r"a\\u{202E}b" in literal.text
    assert literal.text != hidden.text


def test_a_hidden_character_in_a_member_name_is_shown_and_warned_about() -> None:
    seen = shown({"amo\u200bunt": 1})
    assert r'"/amo\u{200B}unt" = 1' in seen.text
    assert seen.warnings == ("INVISIBLE",)


@pytest.mark.parametrize(
    "name", ["x\n/amount = 1", "x = 1", 'x" = 1', "x\r", r"x\u{202E}", "größe", " ", "x\x7f"]
)
def test_a_member_name_cannot_forge_a_line_or_a_value(name: str) -> None:
    seen = shown({name: 99, "amount": 25000})
    lines = seen.text.split("\n")
    assert len(lines) == 5
    assert lines.count("/amount = 25000") == 1
    assert json.dumps("/" + name, ensure_ascii=False)[:2] == '"/'
    assert sum(line.startswith('"/') and line.endswith('" = 99') for line in lines) == 1


def test_leaves_are_sorted_and_empty_containers_are_leaves() -> None:
    seen = shown({"b": [], "a": [10, {"z": 1}], "c": {}})
    paths = [leaf.path for leaf in seen.leaves]
    assert paths == ["/a/0", "/a/1/z", "/b", "/c"]


def test_args_that_are_one_leaf_have_a_name() -> None:
    assert "(args) = 5\n" in shown(5).text


def test_the_same_args_give_the_same_digest_whatever_their_order() -> None:
    assert shown({"a": 1, "b": 2}).sha256 == shown({"b": 2, "a": 1}).sha256
    assert shown({"a": 1, "b": 2}).sha256 != shown({"a": 1, "b": 3}).sha256


def test_a_long_value_is_folded_with_length_and_digest_and_full_stays_at_hand() -> None:
    value = "a" * 1_000_000 + "PAYLOAD"
    seen = shown({"memo": value, "n": 1})
    leaf = seen.leaves[0]
    assert leaf.folded
    assert seen.folded == ("/memo",)
    assert "1000007 characters" in leaf.shown
    assert sha256(value.encode()).hexdigest() in leaf.shown
    assert leaf.shown.endswith('PAYLOAD"')
    assert leaf.full == json.dumps(value)
    assert seen.warnings == ("LONG_VALUE",)
    assert len(seen.text) < 3000


@pytest.mark.parametrize("unit", ["a", "a:", "a:/", "a://x", "а", "\u200b", "{", "\\", "x@", " "])
def test_a_megabyte_of_anything_is_shown_quickly(unit: str) -> None:
    value = unit * (1_000_000 // len(unit))
    started = time.perf_counter()
    assert shown({"x": value}).folded == ("/x",)
    assert time.perf_counter() - started < 5


def test_every_element_of_a_long_array_is_a_line() -> None:
    assert len(shown({"ids": list(range(10_000))}).leaves) == 10_000


def test_a_redacted_leaf_is_marked_as_one_nobody_can_inspect() -> None:
    commitment = {"$commit": "q83v"}
    seen = shown({"card": commitment, "other": commitment}, redacted=("/card",))
    by_path = {leaf.path: leaf for leaf in seen.leaves}
    assert by_path["/card"].warnings == ("UNINSPECTABLE",)
    assert by_path["/other/$commit"].warnings == ()


@pytest.mark.parametrize(
    ("minor", "currency", "exponent", "text"),
    [
        (25000, "USD", 2, "25000 minor USD = USD 250.00"),
        (500, "JPY", 0, "500 minor JPY = JPY 500"),
        (1234567, "KWD", 3, "1234567 minor KWD = KWD 1,234.567"),
        (5, "EUR", 2, "5 minor EUR = EUR 0.05"),
        (-250, "EUR", 2, "-250 minor EUR = EUR -2.50"),
        (100, "XXX", None, "100 minor XXX (exponent not known)"),
    ],
)
def test_money_is_shown_in_both_units_without_rounding(
    minor: int, currency: str, exponent: int | None, text: str
) -> None:
    assert display.money(minor, currency, exponent) == text


def test_plain_ascii_is_never_touched() -> None:
    text = json.dumps("".join(map(chr, range(32, 127))))
    assert glyphs.visible(text) == text
