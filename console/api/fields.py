"""What a request body may hold: each field says how it is checked and how OpenAPI describes it.

One table serves both, so that the documentation cannot promise what the check refuses.
`null` means the same as leaving a field out. A boolean is never a number.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.api import problems

INTEGER_MAX: Final = 2**31 - 1
BIG_INTEGER_MAX: Final = 2**63 - 1

Check = Callable[[Any, str], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """`check(value, pointer)` returns the value or raises a problem; `schema` is JSON Schema."""

    check: Check
    schema: Mapping[str, Any]
    required: bool = False


def required(field: Field) -> Field:
    """The same field, which must be there."""
    return Field(field.check, field.schema, required=True)


def text(
    low: int = 1,
    high: int = 255,
    pattern: str | None = None,
    *,
    says: str = "",
    nul: bool = False,
) -> Field:
    """A string of `low` to `high` characters; `nul` where no text column will hold it."""
    matches = re.compile(pattern, re.ASCII).fullmatch if pattern else None
    rule = says or f"a string of {low} to {high} characters"

    def check(value: Any, pointer: str) -> str:
        if not isinstance(value, str) or not low <= len(value) <= high:
            raise problems.invalid(f"Must be {rule}.", pointer)
        if matches is not None and not matches(value):
            raise problems.invalid(f"Must be {rule}.", pointer)
        if not nul and "\x00" in value:
            raise problems.invalid("Holds a NUL character, which is allowed in args only.", pointer)
        return value

    schema: dict[str, Any] = {"type": "string", "maxLength": high}
    if low:
        schema["minLength"] = low
    if pattern:
        schema["pattern"] = f"^(?:{pattern})$"
    if says:
        schema["description"] = f"{says[0].upper()}{says[1:]}."
    return Field(check, schema)


def integer(low: int = 0, high: int = INTEGER_MAX) -> Field:
    """A whole number between two bounds."""

    def check(value: Any, pointer: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise problems.invalid(f"Must be a whole number from {low} to {high}.", pointer)
        return value

    return Field(check, {"type": "integer", "minimum": low, "maximum": high})


def boolean() -> Field:
    """true or false."""

    def check(value: Any, pointer: str) -> bool:
        if type(value) is not bool:
            raise problems.invalid("Must be true or false.", pointer)
        return value

    return Field(check, {"type": "boolean"})


def one_of(*words: str) -> Field:
    """One of a few words."""

    def check(value: Any, pointer: str) -> str:
        if not isinstance(value, str) or value not in words:
            raise problems.invalid(f"Must be one of {', '.join(words)}.", pointer)
        return value

    return Field(check, {"type": "string", "enum": list(words)})


def anything(says: str = "Any JSON value.") -> Field:
    """Any JSON value, kept as it is."""
    return Field(lambda value, pointer: value, {"description": says})


def many(item: Field, most: int) -> Field:
    """An array of at most `most` items of one kind."""

    def check(value: Any, pointer: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise problems.invalid(f"Must be an array of at most {most} items.", pointer)
        return tuple(item.check(entry, f"{pointer}/{i}") for i, entry in enumerate(value))

    return Field(check, {"type": "array", "items": item.schema, "maxItems": most})


class Shape:
    """An object with known members only."""

    __slots__ = ("_needed", "fields")

    def __init__(self, **members: Field) -> None:
        self.fields = members
        self._needed = tuple(name for name, field in members.items() if field.required)

    def read(self, members: Mapping[str, Any], pointer: str = "") -> dict[str, Any]:
        """The checked values by name; what is absent or null is not in the answer."""
        fields = self.fields
        found: dict[str, Any] = {}
        for name, value in members.items():
            field = fields.get(name)
            if field is None:
                raise problems.unknown_field(name, f"{pointer}/{escape(name)}")
            if value is not None:
                found[name] = field.check(value, f"{pointer}/{name}")
        for name in self._needed:
            if name not in found:
                raise problems.invalid(f"{name!r} is required.", f"{pointer}/{name}")
        return found

    def field(self) -> Field:
        """This object as a field of another."""

        def check(value: Any, pointer: str) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise problems.invalid("Must be an object.", pointer)
            return self.read(value, pointer)

        return Field(check, self.schema())

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the object; optional members may be null."""
        return {
            "type": "object",
            "additionalProperties": False,
            "required": list(self._needed),
            "properties": {
                name: dict(field.schema) if field.required else nullable(field.schema)
                for name, field in self.fields.items()
            },
        }


def nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema, with null allowed."""
    if "enum" in schema:
        return {**schema, "type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return dict(schema)


def escape(token: str) -> str:
    """One reference token of a JSON Pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")
