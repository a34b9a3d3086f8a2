"""RFC 8785 (JCS) with one extension: an integer is written with its exact digits.

The C encoder does the common case; what it spells unlike ECMAScript, or sorts unlike UTF-16,
is written in Python. Pure; no Django.
"""

import json
import re
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from typing import Any

from operations.faults import InvalidJson

_encoder = json.JSONEncoder(
    ensure_ascii=False,
    sort_keys=True,
    separators=(",", ":"),
    allow_nan=False,
    check_circular=False,
)
#: The C encoder made once: `JSONEncoder.encode` makes one for every call, which takes longer than
#: a small value. Where an interpreter has none, that is what is used.
_make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)
_chunks: Callable[[Any, int], Iterable[str]] = (
    _make_encoder(None, _encoder.default, encode_basestring, None, ":", ",", True, False, False)
    if _make_encoder is not None
    else lambda value, _: (_encoder.encode(value),)
)
#: What the C encoder spells unlike ECMAScript: integral floats and exponents. Met inside a
#: string it costs only time.
_FLOAT_TO_RESPELL = re.compile(r"[0-9](?:\.0(?![0-9])|e[-+][0-9])").search
#: Sorted by code point and by UTF-16 unit, names differ only where these occur.
_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]").search


def canonicalize(value: Any) -> bytes:
    """RFC 8785 bytes of a value from `parse_strict`; integers keep all their digits.

    Raises InvalidJson for NaN, infinities and lone surrogates.
    """
    try:
        text = "".join(_chunks(value, 0))
        if _FLOAT_TO_RESPELL(text) or (not text.isascii() and _SUPPLEMENTARY(text)):
            text = _spell(value)
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidJson("", "string holds half a surrogate pair", "unicode") from None
    except ValueError as error:
        raise InvalidJson("", str(error), "number") from None


def _spell(value: Any) -> str:
    """RFC 8785 in Python, for values that hold fractions or supplementary characters."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_encoder.encode(n)}:{_spell(value[n])}" for n in names) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_spell, value)) + "]"
    if isinstance(value, float):
        return _spell_float(value)
    return _encoder.encode(value)


def _spell_float(number: float) -> str:
    """Number::toString of ECMAScript: Python's digits are the same, only their layout differs."""
    if number == 0:
        return "0"
    mantissa, _, exponent = repr(number).partition("e")
    mantissa = mantissa.removesuffix(".0")
    if not exponent:
        return mantissa
    power = int(exponent)
    if power >= 21 or power < -6:
        return f"{mantissa}e{power:+d}"
    sign, digits = ("-", mantissa[1:]) if number < 0 else ("", mantissa)
    digits = digits.replace(".", "")
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return f"{sign}{digits.ljust(power + 1, '0')}"
