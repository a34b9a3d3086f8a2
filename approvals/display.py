r"""`text/v1`: what a person is shown is what is signed.

A pure function of the call's facts and its args, so that a verifier can compute it again. The
text is UTF-8, lines end in LF:

    tool = "stripe.charge"              the facts, in the order given
    amount = 25000 minor USD = USD 250.00
                                        one empty line
    /amount = 25000                     one line per leaf: JSON Pointer, value
    /customer = "cus_42"

A pointer that holds anything but visible ASCII, or a quote, a backslash or `=`, is itself written
as JSON. Members are sorted by code point, elements stand in order; an empty container is a leaf,
and the root of args that are themselves a leaf is written `(args)`. Values are JSON. In values and
pointers every hidden character is written `\u{XXXX}`; a value with right-to-left letters stands
between U+2068 and U+2069. A string of more than 1,024 characters is folded to its first 512 and
last 128, with its length and the SHA-256 of its UTF-8 bytes. No summary, no Markdown, no word of
the agent.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from approvals import glyphs

RENDERER: Final = "text/v1"
FOLD_ABOVE: Final = 1024
HEAD, TAIL = 512, 128
SAFE_INTEGER: Final = 2**53 - 1
_PLAIN_PATH: Final = re.compile(r"[!#-<>-\[\]-~]*").fullmatch


@dataclass(frozen=True)
class Leaf:
    """One line. `shown` is what stands in the text, `full` the same without folding."""

    path: str
    kind: str
    shown: str
    full: str
    warnings: tuple[str, ...]
    folded: bool

    @property
    def path_shown(self) -> str:
        """The path as it stands in the text; quoted unless it is plain, so that no member name
        can end the line, hide, or pass for a value.
        """
        return self.path if _PLAIN_PATH(self.path) else _quoted(self.path)


@dataclass(frozen=True)
class Display:
    text: str
    facts: tuple[tuple[str, str], ...]
    leaves: tuple[Leaf, ...]
    warnings: tuple[str, ...]

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    @property
    def folded(self) -> tuple[str, ...]:
        """Paths of the leaves that must be opened before the display counts as read."""
        return tuple(leaf.path for leaf in self.leaves if leaf.folded)


def render(facts: Mapping[str, str], args: Any, redacted: tuple[str, ...] = ()) -> Display:
    """Display of one call. `facts` are short strings, `redacted` pointers of `$commit` leaves."""
    shown_facts = tuple((name, glyphs.visible(value)) for name, value in facts.items())
    leaves = tuple(_leaf(path, value, redacted) for path, value in _walk(args, "", redacted))
    lines = [f"{name} = {value}" for name, value in shown_facts]
    lines.append("")
    lines.extend(f"{leaf.path_shown} = {leaf.shown}" for leaf in leaves)
    warnings = sorted({word for leaf in leaves for word in leaf.warnings})
    return Display("\n".join(lines) + "\n", shown_facts, leaves, tuple(warnings))


def _walk(value: Any, path: str, redacted: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and path not in redacted:
        for name in sorted(value):
            token = name.replace("~", "~0").replace("/", "~1")
            yield from _walk(value[name], f"{path}/{token}", redacted)
    elif isinstance(value, list) and value:
        for position, item in enumerate(value):
            yield from _walk(item, f"{path}/{position}", redacted)
    else:
        yield path, value


def _leaf(path: str, value: Any, redacted: tuple[str, ...]) -> Leaf:
    warnings = glyphs.warnings_of(path) - {"URL_USERINFO"}
    name = path or "(args)"
    if path in redacted:
        warnings.add("UNINSPECTABLE")
    if not isinstance(value, str):
        text = glyphs.visible(json.dumps(value, ensure_ascii=False, sort_keys=True))
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE_INTEGER:
            warnings.add("BIGINT")
        return Leaf(name, _kind(value), text, text, tuple(sorted(warnings)), folded=False)
    warnings |= glyphs.warnings_of(value)
    if _holds_json(value):
        warnings.add("NESTED_JSON")
    full = _quoted(value)
    if len(value) <= FOLD_ABOVE:
        return Leaf(name, "string", full, full, tuple(sorted(warnings)), folded=False)
    warnings.add("LONG_VALUE")
    digest = sha256(value.encode()).hexdigest()
    middle = f" … {len(value)} characters, sha256 {digest} … "
    shown = _quoted(value[:HEAD]) + middle + _quoted(value[-TAIL:])
    return Leaf(name, "string", shown, full, tuple(sorted(warnings)), folded=True)


def _quoted(value: str) -> str:
    text = glyphs.visible(json.dumps(value, ensure_ascii=False))
    return f"\u2068{text}\u2069" if glyphs.is_right_to_left(value) else text


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "empty array" if isinstance(value, list) else "object"


def _holds_json(value: str) -> bool:
    """A string that is itself an object or an array, which a reader takes for structure."""
    text = value.strip()
    if not (text[:1] in ("{", "[") and text[-1:] in ("}", "]")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def money(amount_minor: int, currency: str, exponent: int | None) -> str:
    """`25000 minor USD = USD 250.00`; without a known exponent the minor units alone."""
    raw = f"{amount_minor} minor {currency}"
    if exponent is None:
        return f"{raw} (exponent not known)"
    sign = "-" if amount_minor < 0 else ""
    digits = str(abs(amount_minor)).rjust(exponent + 1, "0")
    whole, fraction = (digits[:-exponent], digits[-exponent:]) if exponent else (digits, "")
    grouped = f"{int(whole):,}"
    return f"{raw} = {currency} {sign}{grouped}{'.' + fraction if fraction else ''}"
