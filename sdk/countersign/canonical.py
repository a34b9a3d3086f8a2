"""Canonical JSON, fingerprints and keys: written from RFC 8785 alone, apart from the server's.

The one extension is that an integer beyond ±(2^53 - 1) keeps its exact digits.
"""

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 64
_EXACT = 2**53
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT
_TABLE = str.maketrans(_ESCAPES)


class NotCanonical(ValueError):
    """A value that JSON cannot say unmistakably. `pointer` (RFC 6901) tells which."""

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{pointer or 'the value'}: {reason}")
        self.pointer = pointer
        self.reason = reason


def canonicalize(value: Any) -> bytes:
    """The one way to write `value` (RFC 8785, UTF-8). Raises NotCanonical."""
    parts: list[str] = []
    _write(value, "", 0, parts.append)
    return "".join(parts).encode("utf-8")


def fingerprint(value: Any) -> str:
    """What people approve and what tells other arguments under one key: `jcs-sha256:<hex>`."""
    return fingerprint_of(canonicalize(value))


def fingerprint_of(canonical_bytes: bytes) -> str:
    return "jcs-sha256:" + hashlib.sha256(canonical_bytes).hexdigest()


def derive_key(run_id: str, step: int, tool_call_id: str, position: int | None = None) -> str:
    """The idempotency key of a call: from where it stands in its run, never from its arguments.

    A `position` of 1 or more tells apart parallel calls that share an id, and stands in for an
    id that is empty.
    """
    if not tool_call_id:
        if position is None:
            raise ValueError(
                "this call has no id: number the calls of its message (position=), and persist "
                "them before running them"
            )
        tool_call_id = f"#{position}"
    members: list[Any] = ["countersign.key.v1", run_id, step, tool_call_id]
    if position:
        members.append(position)
    return hashlib.sha256(canonicalize(members)).hexdigest()


def parse(text: str | bytes) -> Any:
    """JSON as a model wrote it, read strictly: no member twice, no NaN, nothing cut off.

    Raises NotCanonical (a ValueError).
    """
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_constant)
    except RecursionError:
        raise NotCanonical("", f"nested deeper than {MAX_DEPTH}") from None
    except json.JSONDecodeError as problem:
        raise NotCanonical("", f"not JSON: {problem}") from None
    canonicalize(value)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotCanonical("", f"the member {twice!r} stands there twice")
    return members


def _constant(name: str) -> Any:
    raise NotCanonical("", f"{name} is not JSON")


def _write(value: Any, pointer: str, depth: int, out: Callable[[str], None]) -> None:
    if value is None or value is True or value is False:
        out({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, str):
        out(_string(value, pointer))
    elif isinstance(value, int):
        out(_integer(value, pointer))
    elif isinstance(value, float):
        out(number(value, pointer))
    elif isinstance(value, dict):
        _object(value, pointer, depth + 1, out)
    elif isinstance(value, list | tuple):
        _check_depth(pointer, depth + 1)
        out("[")
        for index, item in enumerate(value):
            if index:
                out(",")
            _write(item, f"{pointer}/{index}", depth + 1, out)
        out("]")
    else:
        kind = type(value).__name__
        raise NotCanonical(pointer, f"{kind} is no JSON type; pass a string, number, list or dict")


def _object(value: dict[Any, Any], pointer: str, depth: int, out: Callable[[str], None]) -> None:
    _check_depth(pointer, depth)
    for name in value:
        if not isinstance(name, str):
            raise NotCanonical(pointer, f"the member name {name!r} is not a string")
        _string(name, pointer)
    out("{")
    # By UTF-16 code units, as RFC 8785 says, which differs from Python's order beyond the BMP.
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    for index, name in enumerate(names):
        if index:
            out(",")
        out(_string(name, pointer))
        out(":")
        step = name.replace("~", "~0").replace("/", "~1")
        _write(value[name], f"{pointer}/{step}", depth, out)
    out("}")


def _check_depth(pointer: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise NotCanonical(pointer, f"nested deeper than {MAX_DEPTH}")


def _string(text: str, pointer: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical(pointer, "half of a surrogate pair is no character") from None
    return f'"{text.translate(_TABLE)}"'


def _integer(value: int, pointer: str) -> str:
    try:
        return str(int(value))
    except ValueError:
        raise NotCanonical(pointer, "too many digits") from None


def number(value: float, pointer: str = "") -> str:
    """A float as ECMAScript writes it, which is how RFC 8785 does."""
    if not math.isfinite(value):
        raise NotCanonical(pointer, f"{value} is not JSON")
    if value == 0:
        return "0"
    if value.is_integer() and _EXACT <= abs(value) < 1e21:
        raise NotCanonical(
            pointer, "a float of that size would read as another integer; pass an int or a string"
        )
    return _ecmascript(value)


def _ecmascript(value: float) -> str:
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + ("" if fraction == "0" else fraction)).lstrip("0")
    # value = 0.<digits> * 10^point
    point = len(whole) + int(exponent or 0)
    point -= len(whole + ("" if fraction == "0" else fraction)) - len(digits)
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
