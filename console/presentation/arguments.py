"""Arguments as a table of leaves: path, type, length and the exact value, nothing left out.

Read from the stored bytes, so number literals stand as they were written (`1.10`, not `1.1`).
"""

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from approvals import display, glyphs
from console.presentation import visible
from console.presentation.visible import Run

#: More leaves than this are counted, not listed.
MOST_LEAVES: Final = 500
#: A longer text is not printed whole.
LARGEST_RAW: Final = 256 * 1024


class _Literal(str):
    """A number as it was written."""

    __slots__ = ()


class _Fraction(_Literal):
    """A number with a fraction or an exponent."""

    __slots__ = ()


@dataclass(frozen=True)
class Leaf:
    """One value. `head` and `tail` are what is shown of a long text; `rest` is folded between."""

    path: str
    kind: str
    size: str
    head: list[Run]
    rest: list[Run]
    tail: list[Run]
    warnings: tuple[str, ...]
    digest: str
    right_to_left: bool = False

    @property
    def name(self) -> list[Run]:
        """The path, visible: names of members come from the agent as well."""
        return visible.visible(self.path)

    @property
    def told(self) -> list[tuple[str, str]]:
        """Each warning's code with what it means."""
        return [(code, WARNINGS.get(code, "")) for code in self.warnings]


#: What the renderer's warnings mean, for the person who decides.
WARNINGS: Final = {
    "BIDI": "a hidden control turns the reading direction round",
    "BIGINT": "larger than many programs can hold exactly",
    "CONFUSABLE": "letters that look like other letters",
    "INVISIBLE": "hidden or odd characters, shown as boxes",
    "LONG_VALUE": "long: the middle is folded",
    "MIXED_SCRIPT": "one word mixes alphabets",
    "NESTED_JSON": "text that is itself JSON",
    "NON_NFC": "letters and accents are stored apart",
    "UNINSPECTABLE": "redacted: you cannot see it",
    "URL_USERINFO": "an address with a user name in it; the host comes after the @",
}


@dataclass(frozen=True)
class Arguments:
    """All leaves, and how many more there are than the page lists."""

    leaves: list[Leaf]
    left_out: int
    body: bytes
    sha256: str

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.body)

    @property
    def base64(self) -> str:
        """The exact bytes for the copy button: an attribute would lose carriage returns."""
        return base64.b64encode(self.body).decode() if self.size <= LARGEST_RAW else ""

    @property
    def text(self) -> list[Run]:
        """The whole text, visible; empty where it is too long for a page."""
        return visible.visible(self.body.decode()) if self.size <= LARGEST_RAW else []

    @property
    def escaped(self) -> str:
        """The visible form as one string."""
        return "".join(run.text for run in self.text)


def read(body: bytes) -> Arguments | None:
    """The table of one JSON text; None when it is no JSON after all."""
    try:
        tree = json.loads(
            body.decode(), parse_int=_Literal, parse_float=_Fraction, parse_constant=_Literal
        )
    except (ValueError, RecursionError):
        return None
    found: list[tuple[str, Any]] = []
    _walk("", tree, found)
    return Arguments(
        leaves=[_leaf(path, value) for path, value in found[:MOST_LEAVES]],
        left_out=max(0, len(found) - MOST_LEAVES),
        body=body,
        sha256=hashlib.sha256(body).hexdigest(),
    )


def _walk(path: str, value: Any, found: list[tuple[str, Any]]) -> None:
    if isinstance(value, dict) and value:
        for name, member in value.items():
            _walk(f"{path}/{name.replace('~', '~0').replace('/', '~1')}", member, found)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            _walk(f"{path}/{index}", item, found)
    else:
        found.append((path or "/", value))


def _leaf(path: str, value: Any) -> Leaf:
    make = partial(Leaf, path=path, rest=[], tail=[], warnings=(), digest="")
    match value:
        case _Fraction():
            return make(kind="number", size="", head=[Run("text", value)])
        case _Literal():
            big = len(value) > 17 or abs(int(value)) > display.SAFE_INTEGER
            warned = ("BIGINT",) if big else ()
            return make(kind="integer", size="", head=[Run("text", value)], warnings=warned)
        case bool():
            return make(kind="boolean", size="", head=[Run("text", "true" if value else "false")])
        case None:
            return make(kind="null", size="", head=[Run("text", "null")])
        case str():
            return _text_leaf(path, value)
        case _:
            empty = "{}" if isinstance(value, dict) else "[]"
            kind = "object" if isinstance(value, dict) else "array"
            return make(kind=kind, size="0", head=[Run("text", empty)])


def _text_leaf(path: str, value: str) -> Leaf:
    octets = value.encode()
    size = f"{len(value):,}" + (f" ({len(octets):,} bytes)" if len(octets) != len(value) else "")
    warned = glyphs.warnings_of(value)
    long = len(value) > display.FOLD_ABOVE
    if long:
        warned.add("LONG_VALUE")
    head, tail = (display.HEAD, display.TAIL) if long else (len(value), 0)
    return Leaf(
        path=path,
        kind="string",
        size=size,
        head=visible.visible(value[:head]),
        rest=visible.visible(value[head : len(value) - tail]) if long else [],
        tail=visible.visible(value[len(value) - tail :]) if long else [],
        warnings=tuple(sorted(warned)),
        digest=hashlib.sha256(octets).hexdigest() if long else "",
        right_to_left=glyphs.is_right_to_left(value),
    )
