"""What people read: times with their zone, exact money, and text that hides nothing."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.presentation import amounts, arguments, times, visible, words
from operations import states

NOON = datetime(2026, 11, 30, 13, 2, 7, tzinfo=UTC)


def test_a_time_has_its_zone_and_offset() -> None:
    said = times.instant(NOON, times.zone_of("Europe/Berlin"), now=NOON)
    assert said.full == "2026-11-30 14:02:07 CET (+01:00)"
    assert said.short == "14:02:07 CET"
    assert said.machine == "2026-11-30T13:02:07.000Z"


def test_a_zone_without_a_name_is_told_by_its_offset() -> None:
    assert times.instant(NOON, times.zone_of("America/Sao_Paulo"), now=NOON).zone == "-03:00"
    assert times.instant(NOON, times.zone_of("Not/AZone"), now=NOON).zone == "UTC"


def test_a_time_of_another_day_says_which() -> None:
    said = times.instant(NOON - timedelta(days=1), UTC, now=NOON)
    assert said.short == "2026-11-29 13:02:07 UTC"


@pytest.mark.parametrize(
    ("seconds", "words_"),
    [
        (0, "just now"), (40, "40 s ago"), (-90, "in 1 min 30 s"), (42 * 60, "42 min ago"),
        (3 * 3600 + 300, "3 h 5 min ago"), (50 * 3600, "2 d 2 h ago"), (9 * 86400, "9 d ago"),
    ],
)  # fmt: skip
def test_ages_are_spoken(seconds: int, words_: str) -> None:
    assert times.age(NOON - timedelta(seconds=seconds), now=NOON) == words_


@pytest.mark.parametrize(
    ("minor", "currency", "shown"),
    [
        (125000, "EUR", "EUR 1,250.00"), (88000, "jpy", "JPY 88,000"), (-5, "USD", "USD -0.05"),
        (1234567, "KWD", "KWD 1,234.567"), (0, "EUR", "EUR 0.00"),
        (100, "XXQ", "100 minor units XXQ"),
        (2**53 + 1, "USD", "USD 90,071,992,547,409.93"),
    ],
)  # fmt: skip
def test_money_is_exact_in_every_exponent(minor: int, currency: str, shown: str) -> None:
    assert str(amounts.amount(minor, currency)) == shown


def test_a_tools_own_exponent_outranks_iso() -> None:
    assert str(amounts.amount(100, "ISK")) == "ISK 100"
    assert str(amounts.amount(100, "ISK", {"ISK": 2})) == "ISK 1.00"


@given(st.integers(-(10**15), 10**15), st.sampled_from(["EUR", "JPY", "KWD"]))
def test_money_reads_back_to_the_same_minor_units(minor: int, currency: str) -> None:
    shown = amounts.amount(minor, currency)
    assert shown.major is not None
    assert amounts.minor_of(shown.major, currency) == minor


@pytest.mark.parametrize(
    ("raw", "boxes"),
    [
        ("invoice\u202egpj.exe", ["\\u{202E}"]), ("acme\u200bcorp", ["\\u{200B}"]),
        ("DE89\u00a03704", ["\\u{00A0}"]), (" x ", ["·", "·"]),
        ("a\x00b\tc", ["\\u{0000}", "\\u{0009}"]),
        ("\U000e0041", ["\\u{E0041}"]), ("plain text", []), ("اسم", []),
    ],
)  # fmt: skip
def test_what_hides_is_shown_in_a_box(raw: str, boxes: list[str]) -> None:
    runs = visible.visible(raw)
    assert [run.text for run in runs if run.kind == "box"] == boxes
    assert all(run.name for run in runs if run.kind == "box")


@given(st.text())
def test_plain_runs_hide_nothing(text: str) -> None:
    from approvals import glyphs

    for run in visible.visible(text):
        if run.kind == "text":
            assert not any(glyphs.is_hidden(char) for char in run.text)


def leaf(raw: str) -> arguments.Leaf:
    read = arguments.read(raw.encode())
    assert read is not None
    return read.leaves[0]


@pytest.mark.parametrize(
    ("raw", "kind", "shown"),
    [
        ('{"a":1.10}', "number", "1.10"), ('{"a":9007199254740993}', "integer", "9007199254740993"),
        ('{"a":-0}', "integer", "-0"), ('{"a":"1"}', "string", "1"),
        ('{"a":true}', "boolean", "true"),
        ('{"a":null}', "null", "null"), ('{"a":{}}', "object", "{}"), ('{"a":[]}', "array", "[]"),
        ('{"a":1e21}', "number", "1e21"), ("3", "integer", "3"),
    ],
)  # fmt: skip
def test_literals_stand_as_they_were_written(raw: str, kind: str, shown: str) -> None:
    found = leaf(raw)
    assert (found.kind, "".join(run.text for run in found.head)) == (kind, shown)


def test_paths_are_json_pointers_of_every_leaf() -> None:
    read = arguments.read(b'{"b":[1,{"x/y":2}],"a~":3}')
    assert read is not None
    assert [found.path for found in read.leaves] == ["/b/0", "/b/1/x~1y", "/a~0"]


def test_a_long_value_is_folded_and_nothing_of_it_is_lost() -> None:
    text = "".join(chr(97 + index % 26) for index in range(5000))
    found = leaf(f'{{"a":"{text}"}}')
    assert "".join(run.text for run in [*found.head, *found.rest, *found.tail]) == text
    assert "LONG_VALUE" in found.warnings
    assert found.digest


def test_an_enormous_integer_is_a_warning_and_no_crash() -> None:
    assert leaf('{"a":' + "9" * 6000 + "}").warnings == ("BIGINT",)


def test_the_exact_bytes_can_be_copied() -> None:
    import base64

    body = b'{"a": "\\u202e",\r\n "b": 1.10}'
    read = arguments.read(body)
    assert read is not None
    assert base64.b64decode(read.base64) == body


def operation(**columns: object) -> SimpleNamespace:
    base = {
        "state": states.PENDING, "gate": "none", "gate_used": False, "failure": None,
        "verdict": None, "updated_at": NOON,
    }  # fmt: skip
    return SimpleNamespace(**base | columns)


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({}, "Pending"),
        ({"gate": "waiting"}, "Waiting for approval"),
        ({"gate": "granted"}, "Pending"),
        ({"gate": "granted", "updated_at": NOON - timedelta(minutes=6)}, "Approved, not run"),
        ({"state": states.INVOKED}, "Running"),
        ({"state": states.COMMITTED}, "Committed"),
        ({"state": states.UNKNOWN}, "Unknown"),
        ({"state": states.UNKNOWN, "verdict": {"kind": "duplicate"}}, "Evidence conflict"),
        ({"state": states.FAILED, "failure": "provider_declined"}, "Failed, nothing happened"),
        ({"state": states.FAILED, "failure": "denied"}, "Denied"),
        ({"state": states.FAILED, "failure": "settled_absent"}, "Settled: did not happen"),
    ],
)
def test_headlines_speak_the_domains_words(columns: dict[str, object], word: str) -> None:
    assert words.headline(operation(**columns), now=NOON).word == word


def test_states_differ_in_word_icon_and_shape() -> None:
    heads = list(words.HEADLINES.values())
    assert len({head.word for head in heads}) == len(heads)
    strong = [head for head in heads if head.key != "flat"]
    assert len({(head.icon, head.key) for head in strong}) >= len(strong) - 1


def test_four_ways_of_not_knowing_have_different_words_and_icons() -> None:
    kinds = ("waiting", "absent", "cannot_look", "needs_human")
    found = [words.verdict_headline(kind) for kind in kinds]
    assert len({head.word for head in found}) == len({head.icon for head in found}) == 4
