"""What a code point can hide: the rules behind every displayed value. Pure, standard library.

Python's `unicodedata` has no script property, so the script is read from the character's name,
which is right for the scripts that look like Latin. Everything here only warns; nothing is ever
normalised or replaced in what is signed or sent.
"""

import re
import unicodedata
from typing import Final

BIDI_CONTROLS: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
#: Format characters, controls, private use, unassigned, surrogates, line and paragraph separators.
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
#: Letters and marks that draw nothing: Hangul fillers, combining grapheme joiner, Khmer inherent
#: vowels, the empty Braille pattern.
_BLANKS: Final = frozenset("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u2800")
#: Text controls that JSON spells visibly by itself.
_SPELLED: Final = frozenset("\n\r\t\b\f")
_RTL: Final = frozenset({"R", "AL", "AN"})

#: Single letters that readers take for Latin ones (UTS 39, the everyday part).
_LATIN_TWINS: Final = frozenset(
    "аеорсухіјѕһԁԛԝ" + "АВЕКМНОРСТУХІЈЅԌԚԜ" + "αινορτυχ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "օսոհցզյլӏ"
)
#: Sets of scripts that one word may mix (UTS 39, "highly restrictive").
_MIXTURES: Final = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)
_WORD = re.compile(r"[^\W_]+")
#: Starts only where a word starts, and everything is bounded: the text may be a megabyte of `a`.
_USERINFO = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}:[\\/]{1,2}[^\s/?#\\@]{0,1000}@"
)


def is_hidden(char: str) -> bool:
    """Must this character be written as `\\u{XXXX}` to be seen?"""
    if " " <= char <= "~":
        return False
    category = unicodedata.category(char)
    return (
        category in _HIDDEN_CATEGORIES
        or (category == "Zs" and char != " ")
        or char in _BLANKS
        or 0xFE00 <= ord(char) <= 0xFE0F
        or 0xE0100 <= ord(char) <= 0xE01EF
    )


def visible(json_text: str) -> str:
    """JSON text with every hidden character written out, name-able and unambiguous.

    JSON itself writes a backslash of the data as two, so `\\u{202E}` can only come from here.
    """
    if json_text.isascii() and json_text.isprintable():
        return json_text
    hidden = {ord(c): f"\\u{{{ord(c):04X}}}" for c in set(json_text) if is_hidden(c)}
    return json_text.translate(hidden)


def is_right_to_left(text: str) -> bool:
    return not text.isascii() and any(unicodedata.bidirectional(c) in _RTL for c in set(text))


def warnings_of(text: str) -> set[str]:
    """The warnings that one string earns by its characters."""
    found: set[str] = set()
    if _USERINFO.search(text):
        found.add("URL_USERINFO")
    chars = set(text)
    if text.isascii():
        if any((c < " " and c not in _SPELLED) or c == "\x7f" for c in chars):
            found.add("INVISIBLE")
        return found
    if not BIDI_CONTROLS.isdisjoint(chars):
        found.add("BIDI")
    if any(c not in BIDI_CONTROLS and c not in _SPELLED and is_hidden(c) for c in chars):
        found.add("INVISIBLE")
    composed = unicodedata.normalize("NFC", text)
    if composed != text:
        found.add("NON_NFC")
    for word in set(_WORD.findall(composed)):
        if word.isascii():
            continue
        scripts = _scripts(word)
        if len(scripts) > 1 and not any(scripts <= mixture for mixture in _MIXTURES):
            found.add("MIXED_SCRIPT")
        if _is_confusable(word):
            found.add("CONFUSABLE")
    return found


def _scripts(word: str) -> set[str]:
    """Scripts of a word's letters; digits and marks belong to any."""
    return {_script(char) for char in set(word) if char.isalpha()}


def _script(char: str) -> str:
    name = unicodedata.name(char, "UNKNOWN")
    first, _, rest = name.partition(" ")
    if first in ("FULLWIDTH", "HALFWIDTH", "MATHEMATICAL", "MODIFIER"):
        return "LATIN" if first == "MATHEMATICAL" else rest.partition(" ")[0]
    if first in ("FEMININE", "MASCULINE", "MICRO", "KELVIN", "ANGSTROM"):
        return "LATIN"
    return first


def _is_confusable(word: str) -> bool:
    """Compatibility spellings (full width, styled letters) and words made of Latin twins only."""
    if unicodedata.normalize("NFKC", word) != word:
        return True
    letters = [char for char in set(word) if char.isalpha()]
    return bool(letters) and all(char in _LATIN_TWINS for char in letters if not char.isascii())
