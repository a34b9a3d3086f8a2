"""Closed shapes: a value either has exactly these members, of these types, or it is refused.

A shape is a dict of shapes, a one-element list of a shape, or a function that answers yes or no.
There are no optional members: what does not apply has a place and a spelling of its own.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from approvals.refusals import SignatureRefused

type Shape = dict[str, Shape] | list[Shape] | Callable[[Any], bool]

MAX_ITEMS: Final = 1000
MAX_TEXT: Final = 20_000
_HEX64 = re.compile(r"[0-9a-f]{64}")
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_B64URL = re.compile(r"[A-Za-z0-9_-]+")
_B64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def check(value: Any, shape: Shape, at: str = "") -> None:
    """Raise SignatureRefused(`statement.schema`) naming the first member that does not fit."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise _misfit(at, "is no object")
        if missing := sorted(shape.keys() - value.keys()):
            raise _misfit(f"{at}/{missing[0]}", "is missing")
        if unknown := sorted(value.keys() - shape.keys()):
            raise _misfit(f"{at}/{unknown[0]}", "is unknown")
        for name, inner in shape.items():
            check(value[name], inner, f"{at}/{name}")
    elif isinstance(shape, list):
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise _misfit(at, "is no list, or too long")
        for position, item in enumerate(value):
            check(item, shape[0], f"{at}/{position}")
    elif not shape(value):
        raise _misfit(at, "has the wrong type or value")


def _misfit(at: str, what: str) -> SignatureRefused:
    return SignatureRefused("statement.schema", f"{at or 'the statement'} {what}")


def text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def name(value: Any) -> bool:
    return text(value) and value != ""


def count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def hex64(value: Any) -> bool:
    return isinstance(value, str) and _HEX64.fullmatch(value) is not None


def digest(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("sha256:") and hex64(value[7:])


def b64url(value: Any) -> bool:
    return isinstance(value, str) and _B64URL.fullmatch(value) is not None


def b64(value: Any) -> bool:
    return isinstance(value, str) and _B64.fullmatch(value) is not None


def utc(value: Any) -> bool:
    if not isinstance(value, str) or not _UTC.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def null(value: Any) -> bool:
    return value is None


def null_or(inner: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or inner(value)


def one_of(*words: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in words


def exactly(word: Any) -> Callable[[Any], bool]:
    return lambda value: value == word and type(value) is type(word)


def list_of(inner: Callable[[Any], bool]) -> list[Shape]:
    return [inner]
