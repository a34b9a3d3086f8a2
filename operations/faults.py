"""Where a JSON text is wrong: the slow, exact reader behind `operations.canonical`.

`canonical` reads with the C scanner, which can say that a text is bad but not which value is.
Only then is this one asked. It knows the path it stands on, so its answer is a JSON Pointer.
Pure; no Django.
"""

import re
from json import JSONDecodeError, JSONDecoder
from typing import Final

MAX_DEPTH: Final = 64
SAFE_INTEGER: Final = 2**53

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_CONSTANT = re.compile(r"-?Infinity|NaN")
_LITERAL = re.compile(r"true|false|null")
_scan_once = JSONDecoder().raw_decode
_NOT_NUMBER: Final = float("inf")

type Path = tuple[str, ...]


class InvalidJson(ValueError):
    """A JSON text that is refused. `pointer` (RFC 6901) names the offending value.

    `kind` is `syntax` or `encoding` where the text is no JSON at all, `type` where it is JSON
    of another shape than was asked for, else what the strict rules found: `duplicate_key`,
    `number`, `unicode` or `depth`.
    """

    def __init__(self, pointer: str, reason: str, kind: str = "syntax") -> None:
        super().__init__(f"{pointer or 'the text'}: {reason}")
        self.pointer = pointer
        self.reason = reason
        self.kind = kind


def pointer_of(path: Path, at: str = "") -> str:
    """The JSON Pointer of a path below `at`; lone surrogates are spelled out, to stay sendable."""
    tokens = (token.replace("~", "~0").replace("/", "~1") for token in path)
    return at + "".join("/" + _sendable(token) for token in tokens)


def number_fault(token: str) -> str | None:
    """Why a number token with a fraction or an exponent is refused, or None where it is fine."""
    number = float(token)
    if abs(number) == _NOT_NUMBER:
        return "number is too large for a double"
    if number.is_integer() and SAFE_INTEGER <= abs(number) < 1e21:
        return (
            "write integers from 2^53 to 1e21 without fraction or exponent: "
            "this spelling would read as another integer"
        )
    return None


def find_fault(text: str, at: str = "", max_depth: int = MAX_DEPTH) -> InvalidJson:
    """The first thing wrong with a text that a strict read refused.

    A text that is no JSON at all is `syntax` even where it also breaks a strict rule.
    """
    reader = _Reader(text, at, max_depth)
    try:
        end = reader.value(_skip(text, 0), ())
        if end != len(text):
            return InvalidJson(at, "trailing data after the value")
    except InvalidJson as fault:
        return fault
    return reader.first or InvalidJson(at, "cannot be read as JSON")


class _Reader:
    """Walks the text once; keeps the first strict-rule fault, raises on bad syntax and depth."""

    def __init__(self, text: str, at: str, max_depth: int) -> None:
        self.text = text
        self.at = at
        self.max_depth = max_depth
        self.first: InvalidJson | None = None

    def value(self, index: int, path: Path) -> int:
        char = self.text[index : index + 1]
        if char == '"':
            return self.string(index, path)[1]
        if char in ("{", "["):
            if len(path) >= self.max_depth:
                raise self.fault(path, f"nested deeper than {MAX_DEPTH} levels", "depth")
            read = self.members if char == "{" else self.elements
            return read(_skip(self.text, index + 1), path)
        if literal := _LITERAL.match(self.text, index):
            return literal.end()
        return self.number(index, path)

    def members(self, index: int, path: Path) -> int:
        text = self.text
        if text[index : index + 1] == "}":
            return _skip(text, index + 1)
        seen: set[str] = set()
        while True:
            if text[index : index + 1] != '"':
                raise self.fault(path, "a member name in double quotes is missing")
            key, index = self.string(index, path)
            inner = (*path, key)
            if key in seen:
                self.note(inner, "the same member appears twice", "duplicate_key")
            seen.add(key)
            index = _skip(text, index)
            if text[index : index + 1] != ":":
                raise self.fault(inner, "':' is missing after the member name")
            index = _skip(text, self.value(_skip(text, index + 1), inner))
            ending, index = text[index : index + 1], _skip(text, index + 1)
            if ending == "}":
                return index
            if ending != ",":
                raise self.fault(path if ending else inner, _unfinished(ending))

    def elements(self, index: int, path: Path) -> int:
        text = self.text
        if text[index : index + 1] == "]":
            return _skip(text, index + 1)
        position = 0
        while True:
            inner = (*path, str(position))
            index = _skip(text, self.value(index, inner))
            ending, index = text[index : index + 1], _skip(text, index + 1)
            if ending == "]":
                return index
            if ending != ",":
                raise self.fault(path if ending else inner, _unfinished(ending))
            position += 1

    def string(self, index: int, path: Path) -> tuple[str, int]:
        try:
            value, end = _scan_once(self.text, index)
        except JSONDecodeError as error:
            raise self.fault(path, f"string is not well formed ({error.msg})") from None
        try:
            value.encode()
        except UnicodeEncodeError:
            self.note(path, "string holds half a surrogate pair", "unicode")
        return value, _skip(self.text, end)

    def number(self, index: int, path: Path) -> int:
        if constant := _CONSTANT.match(self.text, index):
            self.note(path, f"{constant[0]} is no JSON number", "number")
            return _skip(self.text, constant.end())
        match = _NUMBER.match(self.text, index)
        if match is None:
            found = self.text[index : index + 12]
            raise self.fault(path, f"no JSON value starts at {found!r}" if found else "cut off")
        if match[2] or match[3]:
            reason = number_fault(match[0])
        else:
            reason = _integer_fault(match[0])
        if reason:
            self.note(path, reason, "number")
        return _skip(self.text, match.end())

    def note(self, path: Path, reason: str, kind: str) -> None:
        self.first = self.first or self.fault(path, reason, kind)

    def fault(self, path: Path, reason: str, kind: str = "syntax") -> InvalidJson:
        return InvalidJson(pointer_of(path, self.at), reason, kind)


def _integer_fault(token: str) -> str | None:
    try:
        int(token)
    except ValueError:  # Python's own bound on digits, which keeps conversion from being an attack
        return "integer has too many digits"
    return None


def _unfinished(ending: str) -> str:
    return f"',' or the closing bracket is missing before {ending!r}" if ending else "cut off"


def _skip(text: str, index: int) -> int:
    match = _SPACE.match(text, index)
    return match.end() if match else index


def _sendable(token: str) -> str:
    return token.encode("utf-8", "backslashreplace").decode()
