"""`state:unknown tool:charge -run:abc "pi_3Q"` read into terms, and terms written back as text.

query := term { " " term }      term := ["-"] field ":" value | "quoted text" | word
value := atom { "," atom } | (">" | ">=" | "<" | "<=") atom | atom ".." atom
"""

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

#: A longer query is a mistake or an attack.
MOST_CHARACTERS: Final = 500
_TOKEN = re.compile(r'-?[a-z_]+:"[^"]*"|"[^"]*"|\S+')
_FIELD = re.compile(r"(-?)([A-Za-z_]+):(.*)", re.DOTALL)
_COMPARE = re.compile(r"(>=|<=|>|<)(.+)", re.DOTALL)


class BadQuery(Exception):
    """What is wrong with the query, in words for the person who typed it."""

    def __init__(self, problem: str, suggestion: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.suggestion = suggestion


@dataclass(frozen=True)
class Term:
    """One condition. A bare word has the field `text`; `operator` is in, >, >=, <, <= or range."""

    field: str
    operator: str
    values: tuple[str, ...]
    negated: bool = False

    def __str__(self) -> str:
        if self.field == "text":
            word = self.values[0]
            return f'"{word}"' if " " in word or ":" in word else word
        match self.operator:
            case "in":
                value = ",".join(self.values)
            case "range":
                value = "..".join(self.values)
            case comparison:
                value = f"{comparison}{self.values[0]}"
        quoted = f'"{value}"' if " " in value else value
        return f"{'-' if self.negated else ''}{self.field}:{quoted}"


def parse(query: str, fields: Collection[str]) -> tuple[Term, ...]:
    """Read a query whose fields are these; anything else is a :class:`BadQuery`."""
    if len(query) > MOST_CHARACTERS:
        raise BadQuery(f"A query has at most {MOST_CHARACTERS} characters.")
    if query.count('"') % 2:
        raise BadQuery("A quotation mark is missing.")
    return tuple(_term(token, fields) for token in _TOKEN.findall(query))


def _term(token: str, fields: Collection[str]) -> Term:
    if token.startswith('"'):
        return Term("text", "in", (token.strip('"'),))
    named = _FIELD.fullmatch(token)
    if not named:
        return Term("text", "in", (token,))
    minus, field, value = named.groups()
    field = field.lower()
    if field not in fields:
        near = difflib.get_close_matches(field, fields, n=1, cutoff=0.5)
        hint = f"{minus}{near[0]}:{value}" if near else ""
        raise BadQuery(f"There is no field “{field}”.", hint)
    return Term(field, *_value(field, value.strip('"')), negated=bool(minus))


def _value(field: str, value: str) -> tuple[str, tuple[str, ...]]:
    if not value:
        raise BadQuery(f"“{field}:” needs a value.")
    if compared := _COMPARE.fullmatch(value):
        return compared[1], (compared[2],)
    low, dots, high = value.partition("..")
    if dots:
        if not low or not high:
            raise BadQuery(f"A range has two ends: “{field}:from..to”.")
        return "range", (low, high)
    return "in", tuple(atom for atom in value.split(",") if atom)


def written(terms: Collection[Term]) -> str:
    """The query text of these terms; parsing it gives them again."""
    return " ".join(str(term) for term in terms)
