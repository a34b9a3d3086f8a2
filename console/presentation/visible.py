"""Text made visible: every character that could hide or mislead is shown by its code point.

Values come from agents and from whoever writes to them, so nothing here is ever markup. The page
prints the runs one by one; only plain text is escaped and printed as it stands.
"""

import unicodedata
from dataclasses import dataclass

from approvals import glyphs


@dataclass(frozen=True)
class Run:
    """A stretch of plain text, or one character shown as a box with its `name`."""

    kind: str
    text: str
    name: str = ""


def visible(text: str) -> list[Run]:
    """Split text into plain runs, boxes (`\\u{202E}`), line ends and edge blanks."""
    runs: list[Run] = []
    plain: list[str] = []
    edge = len(text) - len(text.lstrip(" "))
    end = len(text.rstrip(" "))

    def flush() -> None:
        if plain:
            runs.append(Run("text", "".join(plain)))
            plain.clear()

    for index, char in enumerate(text):
        if char == "\n":
            flush()
            runs.append(Run("break", "⏎", "line feed"))
        elif char == " " and (index < edge or index >= end):
            flush()
            runs.append(Run("box", "·", "space at the edge"))
        elif glyphs.is_hidden(char):
            flush()
            runs.append(Run("box", f"\\u{{{ord(char):04X}}}", name_of(char)))
        else:
            plain.append(char)
    flush()
    return runs


def name_of(char: str) -> str:
    """The character's Unicode name in lower case, or what kind it is."""
    fallback = {"\t": "tab", "\r": "carriage return", "\x00": "null"}.get(char, "control character")
    return unicodedata.name(char, fallback).lower()
