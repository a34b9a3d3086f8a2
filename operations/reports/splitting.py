"""Cutting a batch into the exact texts of its records, without judging any of them. Pure.

Only a batch that is no JSON array at all is refused here. What is wrong inside one record (a
duplicate member, NaN, half a surrogate pair, bytes that are no UTF-8) is found when that record is
read, and spoils that record alone.
"""

import json
import re
from json import JSONDecodeError
from typing import Any, Final, NamedTuple

from operations.canonical import InvalidJson, object_at, parse_strict
from operations.faults import find_fault

#: Reads whatever has the shape of JSON: integers of any length, control characters, constants.
_scan_once = json.JSONDecoder(parse_int=float, strict=False).raw_decode
_SPACE = re.compile(r"[ \t\n\r]*").match
_BOM: Final = "\ufeff"


class Parsed(NamedTuple):
    """A record that cutting it out has read already, as strictly as it would be read alone."""

    text: str
    values: dict[str, Any]


def split_array(body: bytes) -> list[str | Parsed]:
    """Each element of a JSON array: parsed where it is sound, else its text.

    InvalidJson where the body is no array.
    """
    try:
        text, is_whole = body.decode(), True
    except UnicodeDecodeError:
        text, is_whole = body.decode("utf-8", "surrogateescape"), False
    if text.startswith(_BOM):
        raise InvalidJson("", "starts with a byte order mark; send plain UTF-8", "encoding")
    index = _skip(text, 0)
    if text[index : index + 1] != "[":
        parse_strict(text)
        raise InvalidJson("", "must be an array of records (or send application/x-ndjson)", "type")
    try:
        return _elements(text, _skip(text, index + 1), is_whole)
    except (JSONDecodeError, RecursionError):
        raise find_fault(text) from None


def split_lines(body: bytes) -> list[str]:
    """The text of each line that is not blank (application/x-ndjson)."""
    text = body.decode("utf-8", "surrogateescape")
    lines = (line.strip(" \t\r") for line in text.split("\n"))
    return [line for line in lines if line]


def as_received(text: str) -> bytes:
    """The bytes of a record as they came."""
    return text.encode("utf-8", "surrogateescape")


def _elements(text: str, index: int, is_whole: bool) -> list[str | Parsed]:
    found: list[str | Parsed] = []
    if text[index : index + 1] == "]":
        _end(text, index + 1)
        return found
    while True:
        sound = object_at(text, index) if is_whole else None
        if sound is None:
            _, end = _scan_once(text, index)
            found.append(text[index:end])
        else:
            values, end = sound
            found.append(Parsed(text[index:end], values))
        index = _skip(text, end)
        ending = text[index : index + 1]
        if ending == "]":
            _end(text, index + 1)
            return found
        if ending != ",":
            raise JSONDecodeError("',' or ']' expected", text, index)
        index = _skip(text, index + 1)


def _end(text: str, index: int) -> None:
    if _skip(text, index) != len(text):
        raise JSONDecodeError("trailing data", text, index)


def _skip(text: str, index: int) -> int:
    match = _SPACE(text, index)
    return match.end() if match else index
