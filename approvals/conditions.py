"""The `when` of a rule: a CEL expression over one call, bounded, without side effects.

Names: `args` (the arguments), `amount` (minor units or null), `currency`, `tool`, `agent`,
`environment`, `namespace`. Checked when a policy is published: a misspelled name is refused there
and not discovered by a payment. An expression that fails on a call (a missing member, another
type) is *undecided*, and what is undecided asks a person.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import celpy
import celpy.adapter
import celpy.celparser
import lark

NAMES: Final = frozenset(
    {"args", "amount", "currency", "tool", "agent", "environment", "namespace"}
)
_MACROS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})
_FUNCTIONS: Final = frozenset(
    {"has", "size", "int", "uint", "double", "string", "bool", "type", "timestamp", "duration"}
)
MAX_LENGTH: Final = 2000


class InvalidCondition(Exception):
    """The expression cannot be published; the message says which word is wrong."""


def check_condition(text: str) -> None:
    """Raise InvalidCondition where the expression does not parse or uses unknown names."""
    if len(text) > MAX_LENGTH:
        raise InvalidCondition(f"longer than {MAX_LENGTH} characters")
    try:
        tree = celpy.Environment().compile(text)
    except (celpy.celparser.CELParseError, RecursionError) as error:
        first = str(error).strip().splitlines()
        raise InvalidCondition(f"not a CEL expression: {first[0] if first else text}") from None
    known = NAMES | _bound_names(tree)
    for node in tree.iter_subtrees():
        word = str(node.children[0]) if node.children else ""
        if node.data == "ident" and word not in known:
            raise InvalidCondition(f"unknown name {word!r}; known are {', '.join(sorted(NAMES))}")
        if node.data in ("ident_arg", "dot_ident_arg") and word not in _FUNCTIONS:
            raise InvalidCondition(f"unknown function {word!r}")


def _bound_names(tree: lark.Tree[Any]) -> frozenset[str]:
    """Variables that macros such as `args.items.all(x, x.amount < 5)` bring."""
    names = set()
    for node in tree.find_data("member_dot_arg"):
        if str(node.children[1]) in _MACROS:
            first = next(node.children[2].find_data("ident"), None)
            if first is not None:
                names.add(str(first.children[0]))
    return frozenset(names)


def decide(text: str, values: Mapping[str, Any]) -> bool | None:
    """True or False as the expression says; None where it cannot be decided for this call."""
    try:
        activation = {name: celpy.adapter.json_to_cel(values.get(name)) for name in NAMES}
        answer = _program(text).evaluate(activation)
    except Exception:  # noqa: BLE001 - an interpreter of foreign text: every failure is undecided
        return None
    return bool(answer) if isinstance(answer, celpy.celtypes.BoolType | bool) else None


@lru_cache(maxsize=256)
def _program(text: str) -> celpy.Runner:
    environment = celpy.Environment()
    return environment.program(environment.compile(text))
