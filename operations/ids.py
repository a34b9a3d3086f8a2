"""Identifiers: time-ordered UUIDs inside, short typed handles outside.

UUIDv7 (RFC 9562) keeps inserts at the right edge of every index. People and URLs see
`op_`, `run_`, `apr_`, `inc_` plus 26 Crockford base-32 digits of the same 128 bits.
"""

import os
import time
import uuid

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {char: index for index, char in enumerate(_ALPHABET)}


def uuid7() -> uuid.UUID:
    """A new time-ordered UUID: 48 bits of Unix milliseconds, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    random_bits = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | random_bits
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def handle(prefix: str, value: uuid.UUID) -> str:
    """`handle("op", u)` -> `op_` + 26 base-32 digits, the form that people see."""
    number = value.int
    digits = []
    for _ in range(26):
        digits.append(_ALPHABET[number & 31])
        number >>= 5
    return f"{prefix}_{''.join(reversed(digits))}"


def parse_handle(prefix: str, text: str) -> uuid.UUID | None:
    """The UUID behind a handle, or None where the text is no handle of this kind."""
    head, separator, digits = text.partition("_")
    if head != prefix or not separator or len(digits) != 26:
        return None
    number = 0
    for char in digits.lower():
        if char not in _VALUES:
            return None
        number = number << 5 | _VALUES[char]
    return uuid.UUID(int=number) if number < 1 << 128 else None
