"""RFC 8785 against the vectors of its author (cyberphone/json-canonicalization)."""

import struct
from pathlib import Path

import pytest

from operations.canonical import canonicalize, parse_strict

NAMES = ("arrays", "french", "structures", "unicode", "values", "weird")


@pytest.mark.parametrize("name", NAMES)
def test_it_writes_the_published_bytes(vectors: Path, name: str) -> None:
    folder = vectors / "rfc8785" / "testdata"
    written = canonicalize(parse_strict((folder / "input" / f"{name}.json").read_bytes()))
    expected = bytes.fromhex((folder / "outhex" / f"{name}.txt").read_text())
    assert written == expected


@pytest.mark.parametrize("name", NAMES)
def test_what_it_wrote_reads_back_to_the_same_bytes(vectors: Path, name: str) -> None:
    written = (vectors / "rfc8785" / "testdata" / "output" / f"{name}.json").read_bytes().strip()
    assert canonicalize(parse_strict(written)) == written


def test_ten_thousand_doubles_are_spelled_as_ecmascript_does(vectors: Path) -> None:
    wrong = []
    lines = (vectors / "rfc8785" / "es6testfile10k.txt").read_text().splitlines()
    for line in lines:
        bits, expected = line.split(",")
        (number,) = struct.unpack(">d", bytes.fromhex(bits.zfill(16)))
        if canonicalize(number).decode() != expected:
            wrong.append(line)
    assert len(lines) == 10_000
    assert wrong == []
