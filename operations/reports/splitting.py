"""Cutting a batch into the exact texts of its records, without judging any of them. Pure.

Only a batch that is no JSON array at all is refused here. What is wrong inside one record (a
duplicate member, NaN, half a surrogate pair, bytes that are no UTF-8) is found when that record is
read, and spoils that record alone.
"""

import json
import re
from json import JSONDecodeError
from typing import Final

from operations.canonical import InvalidJson, parse_strict
from operations.faults import find_fault

#: Reads whatever has the shape of JSON: integers of any length, control characters, constants.
_scan_once = json.JSONDecoder(parse_int=float, strict=False).raw_decode
_SPACE = re.compile(r"[ \t\n\r]*").match
_BOM: Final = "\ufeff"


def split_array(body: bytes) -> list[str]:
    """The text of each element of a JSON array; InvalidJson where the body is none."""
    text = body.decode("utf-8", "surrogateescape")
    if text.startswith(_BOM):
        raise InvalidJson("", "starts with a byte order mark; send plain UTF-8", "encoding")
    index = _skip(text, 0)
    if text[index : index + 1] != "[":
        parse_strict(text)
        raise InvalidJson("", "must be an array of records (or send application/x-ndjson)", "type")
    try:
        return _elements(text, _skip(text, index + 1))
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


def _elements(text: str, index: int) -> list[str]:
    texts: list[str] = []
    if text[index : index + 1] == "]":
        _end(text, index + 1)
        return texts
    while True:
        _, end = _scan_once(text, index)
        texts.append(text[index:end])
        index = _skip(text, end)
        ending = text[index : index + 1]
        if ending == "]":
            _end(text, index + 1)
            return texts
        if ending != ",":
            raise JSONDecodeError("',' or ']' expected", text, index)
        index = _skip(text, index + 1)


def _end(text: str, index: int) -> None:
    if _skip(text, index) != len(text):
        raise JSONDecodeError("trailing data", text, index)


def _skip(text: str, index: int) -> int:
    match = _SPACE(text, index)
    return match.end() if match else index
