"""Strict JSON, RFC 8785 with exact big integers, fingerprints and keys (design: the domain).

The common path is the C scanner; `operations.faults` is asked only where something is wrong,
to say where. Writing is in `operations.jcs`. Pure; no Django.

Values are dict, list, str, int, float, bool and None. A token such as `25000.0` or `2.5e4`
comes back as the int it is; a float is never integral below 1e21.
"""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from json.encoder import encode_basestring
from typing import Any, Final

from operations.faults import MAX_DEPTH, SAFE_INTEGER, InvalidJson, find_fault, number_fault
from operations.jcs import canonicalize

__all__ = [
    "InvalidJson",
    "Member",
    "canonicalize",
    "decode_utf8",
    "derive_key",
    "fingerprint",
    "is_reserved_call_id",
    "member_text",
    "object_at",
    "parse_members",
    "parse_object",
    "parse_strict",
    "resolve_pointer",
]

FINGERPRINT_PREFIX: Final = "jcs-sha256:"
_INFINITY: Final = float("inf")
_BOM: Final = "\ufeff"
_SPACE = re.compile(r"[ \t\n\r]*").match
#: Any escaped surrogate, whole pairs included: worth a closer look, no more.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]").search
_RESERVED_ID = re.compile(r"#|.*~edit[0-9]+\Z", re.DOTALL).match


class Member:
    """One member of a top-level object: its value and its text exactly as received."""

    __slots__ = ("_name", "_text", "value")

    def __init__(self, value: Any, name: str, text: str) -> None:
        self.value = value
        self._name = name
        self._text = text

    @property
    def raw(self) -> bytes:
        return member_text(self._text, self._name).encode()

    def __repr__(self) -> str:
        return f"Member({self.value!r})"


def member_text(text: str, name: str) -> str:
    """The exact text of one member of an object that is known to be well formed and to have it."""
    quoted = f'"{name}"'
    if "\\" not in text and text.count(quoted) == 1:  # then this can only be the member's name
        colon = _skip(text, text.index(quoted) + len(quoted))
        begin = _skip(text, colon + 1)
        return text[begin : _scan_once(text, begin)[1]]
    return text[_member_spans(text)[name]]


def _member_spans(text: str) -> dict[str, slice]:
    """Spans of the members of an object that is known to be well formed."""
    spans: dict[str, slice] = {}
    index = _skip(text, _skip(text, 0) + 1)
    while text[index] == '"':
        name, index = _scan_once(text, index)
        begin = _skip(text, _skip(text, index) + 1)
        _, end = _scan_once(text, begin)
        spans[name] = slice(begin, end)
        index = _skip(text, _skip(text, end) + 1)
        if index >= len(text):
            break
    return spans


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate key")
    return members


def _fraction(token: str) -> int | float:
    number = float(token)
    if number.is_integer():
        if -SAFE_INTEGER < number < SAFE_INTEGER:
            return int(number)
        if abs(number) < 1e21:
            raise ValueError(number_fault(token))
    elif number in (_INFINITY, -_INFINITY):
        raise ValueError(number_fault(token))
    return number


def _no_constant(token: str) -> Any:
    raise ValueError(token)


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_fraction, parse_constant=_no_constant
)
_scan_strictly: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]
#: The C scanner itself; only for text that is known to be well formed.
_plain: Any = json.JSONDecoder()
_scan_once: Callable[[str, int], tuple[Any, int]] = _plain.scan_once


def parse_strict(raw: bytes | str, at: str = "") -> Any:
    """The value of one JSON text; raises InvalidJson with a pointer that starts with `at`.

    Refused: what is no UTF-8 or starts with a BOM, bad syntax, trailing data, duplicate keys,
    NaN and infinities, numbers that overflow a double, fraction or exponent spellings of
    integers from 2^53 to 1e21, lone surrogates, more than 64 levels.
    """
    return _read(decode_utf8(raw, at), at, MAX_DEPTH)


def parse_members(raw: bytes | str) -> dict[str, Member]:
    """The members of a top-level object, each with its exact text; strict as `parse_strict`.

    Each member may be 64 levels deep, as the same value would be in a text of its own.
    """
    text = decode_utf8(raw)
    return {name: Member(value, name, text) for name, value in parse_object(text).items()}


def parse_object(text: str) -> dict[str, Any]:
    """The values of a top-level object's members, read as `parse_members` reads them."""
    value = _read(decode_utf8(text), "", MAX_DEPTH + 1)
    if not isinstance(value, dict):
        raise InvalidJson("", f"must be an object, not {_kind_of(value)}", "type")
    return value


def object_at(text: str, index: int) -> tuple[dict[str, Any], int] | None:
    """The members of the object that begins here, as `parse_object` reads them, and its end.

    None where it would be refused, or is no object. The text is known to be whole Unicode.
    """
    try:
        value, end = _scan_strictly(text, index)
    except (ValueError, StopIteration, RecursionError):
        return None
    if not isinstance(value, dict) or not _is_sound(text[index:end], value, MAX_DEPTH + 1):
        return None
    return value, end


def _read(text: str, at: str, max_depth: int) -> Any:
    try:
        value = _decoder.decode(text)
    except (ValueError, RecursionError):
        raise find_fault(text, at, max_depth) from None
    if not _is_sound(text, value, max_depth):
        raise find_fault(text, at, max_depth)
    return value


def decode_utf8(raw: bytes | str, at: str = "") -> str:
    """The text of a body; refuses a BOM, invalid UTF-8 and emptiness with their reasons."""
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        if isinstance(raw, str) and not raw.isascii():
            raw.encode()
    except UnicodeDecodeError as error:
        reason = f"invalid UTF-8 at byte {error.start}"
        raise InvalidJson(at, reason, "encoding") from None
    except UnicodeEncodeError:
        raise InvalidJson(at, "text holds half a surrogate pair", "unicode") from None
    if text.startswith(_BOM):
        raise InvalidJson(at, "starts with a byte order mark; send plain UTF-8", "encoding")
    if not text:
        raise InvalidJson(at, "is empty")
    return text


def fingerprint(value: Any) -> str:
    """`jcs-sha256:` and the hex SHA-256 of the value's canonical bytes."""
    return FINGERPRINT_PREFIX + sha256(canonicalize(value)).hexdigest()


def derive_key(run_id: str, step: int, tool_call_id: str, position: int | None = None) -> str:
    """The idempotency key of a call: hex SHA-256 over a JSON array, so that no two calls collide.

    A position from 1 is a member of its own; any position stands in for an empty call id.
    Raises ValueError where both are missing.
    """
    if not tool_call_id:
        if position is None:
            raise ValueError("a call needs an id, or its position in the message")
        tool_call_id = f"#{position}"
    call = f"{encode_basestring(run_id)},{step:d},{encode_basestring(tool_call_id)}"
    fifth = f",{position:d}" if position else ""
    try:  # what `canonicalize` would write, at a fraction of the cost
        return sha256(f'["countersign.key.v1",{call}{fifth}]'.encode()).hexdigest()
    except UnicodeEncodeError:
        raise InvalidJson("", "string holds half a surrogate pair", "unicode") from None


def is_reserved_call_id(tool_call_id: str) -> bool:
    """Whether only Countersign itself may mint this id: `#…` stand-ins and `…~edit<n>`."""
    return _RESERVED_ID(tool_call_id) is not None


def resolve_pointer(value: Any, pointer: str) -> Any:
    """What an RFC 6901 pointer names; LookupError where nothing is there."""
    if not pointer:
        return value
    if not pointer.startswith("/"):
        raise LookupError(pointer)
    for escaped in pointer[1:].split("/"):
        token = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and _is_index(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            raise LookupError(pointer)
    return value


def _is_sound(text: str, value: Any, max_depth: int) -> bool:
    """The two rules that the C scanner cannot keep: depth, and whole surrogate pairs."""
    brackets = text.count("[") + text.count("{")
    if brackets > max_depth and not _is_shallow(value, max_depth):
        return False
    if "\\u" not in text or not _SURROGATE_ESCAPE(text):
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_shallow(value: Any, max_depth: int) -> bool:
    """Level by level, so that no nesting can exhaust the stack."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        below: list[Any] = []
        for container in level:
            items = container.values() if isinstance(container, dict) else container
            below += [item for item in items if isinstance(item, dict | list)]
        if not below:
            return True
        level = below
    return False


def _skip(text: str, index: int) -> int:
    if text[index : index + 1] > " ":  # no space to skip, as in most texts
        return index
    match = _SPACE(text, index)
    return match.end() if match else index


def _is_index(digits: str) -> bool:
    return digits == "0" or (digits.isascii() and digits.isdigit() and digits[0] != "0")


def _kind_of(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
