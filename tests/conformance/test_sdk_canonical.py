"""The SDK's own canonical JSON against the published vectors and against the server."""

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from countersign import canonical as ours
from hypothesis import given
from hypothesis import strategies as st

from operations import canonical as servers


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_it_writes_the_published_bytes(vectors: Path, name: str) -> None:
    folder = vectors / "rfc8785" / "testdata"
    value = json.loads((folder / "input" / f"{name}.json").read_bytes())
    assert ours.canonicalize(value) == (folder / "output" / f"{name}.json").read_bytes().strip()


def test_it_writes_numbers_as_ecmascript_does(vectors: Path) -> None:
    lines = (vectors / "rfc8785" / "es6testfile10k.txt").read_text().splitlines()
    for line in lines:
        bits, expected = line.split(",")
        value = struct.unpack(">d", bytes.fromhex(bits.zfill(16)))[0]
        if not math.isfinite(value):
            continue
        try:
            assert ours.number(value) == expected
        except ours.NotCanonical:
            # Refused on purpose: it would read as another integer.
            assert value.is_integer()
            assert 2**53 <= abs(value) < 1e21
    assert len(lines) == 10_000


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_it_agrees_with_the_server(value: Any) -> None:
    try:
        written = ours.canonicalize(value)
    except ours.NotCanonical:
        return
    # What leaves the SDK is what the server reads, and gets the same fingerprint there.
    assert servers.canonicalize(servers.parse_strict(written)) == written
    assert servers.fingerprint(servers.parse_strict(written)) == ours.fingerprint(value)
    assert ours.canonicalize(ours.parse(written)) == written


@given(
    st.text(min_size=1).filter(lambda text: not text.startswith("#")),
    st.integers(0, 10**6),
    st.text().filter(lambda text: not text.startswith("#")),
    st.none() | st.integers(0, 50),
)
def test_it_derives_the_servers_keys(
    run_id: str, step: int, tool_call_id: str, position: int | None
) -> None:
    if not tool_call_id and position is None:
        return
    mine = ours.derive_key(run_id, step, tool_call_id, position)
    assert mine == servers.derive_key(run_id, step, tool_call_id, position)


def test_calls_that_join_to_the_same_text_have_different_keys() -> None:
    assert ours.derive_key("a", 1, "2:x") != ours.derive_key("a:1", 2, "x")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": 1, "\\u0061": 2}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e400}',
        '{"a": 9007199254740992.0}',
        '{"a": "\\ud800"}',
        '{"a": 1',
        '{"a": 1} x',
        "[" * 65 + "]" * 65,
        "[" * 100_000,
    ],
)
def test_both_refuse_the_same_texts(text: str) -> None:
    with pytest.raises(ours.NotCanonical):
        ours.parse(text)
    with pytest.raises(servers.InvalidJson):
        servers.parse_strict(text)


@pytest.mark.parametrize("same", [[25000, 25000.0, 2.5e4], [0, -0.0], [{"b": 1, "a": 2}]])
def test_one_value_has_one_fingerprint(same: list[Any]) -> None:
    assert len({ours.fingerprint(value) for value in same}) == 1


def test_numbers_strings_and_truth_are_three_things() -> None:
    assert len({ours.fingerprint(value) for value in (1, "1", True)}) == 3


def test_big_integers_keep_every_digit() -> None:
    assert ours.canonicalize(9007199254740993) == b"9007199254740993"
    assert ours.fingerprint(9007199254740993) != ours.fingerprint(9007199254740992)
