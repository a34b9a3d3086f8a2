"""Building blocks of JSON Schema for answers. Requests come from `console.api.shapes`."""

from typing import Any, Final

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(kind: str, **more: Any) -> Schema:
    """A value of one type, or null."""
    return {"type": [kind, "null"], **more}


def either_null(schema: Schema) -> Schema:
    """A referenced schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def thing(properties: dict[str, Schema], *, needs: list[str] | None = None) -> Schema:
    """An object; answers may gain members, so others are allowed."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if needs is None else needs,
    }


def page(name: str) -> Schema:
    """One page of a list."""
    return thing({"items": {"type": "array", "items": ref(name)}, "next_cursor": maybe("string")})


TEXT: Final[Schema] = {"type": "string"}
MAYBE_TEXT: Final = maybe("string")
WHOLE: Final[Schema] = {"type": "integer"}
YES_NO: Final[Schema] = {"type": "boolean"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
MAYBE_TIME: Final = maybe("string", format="date-time")
ANY: Final[Schema] = {"description": "Any JSON value."}
