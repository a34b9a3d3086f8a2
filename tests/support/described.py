"""Holds an answer against the product's own OpenAPI document. As much JSON Schema as that uses."""

from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


class Described:
    """One OpenAPI document."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.schemas = spec["components"]["schemas"]

    def check(self, value: Any, name: str) -> None:
        """Fail with the path of the first thing that the document does not allow."""
        wrong = self._wrong(value, self.schemas[name], name)
        assert wrong is None, wrong

    def _wrong(self, value: Any, schema: dict[str, Any], at: str) -> str | None:
        if "$ref" in schema:
            return self._wrong(value, self.schemas[schema["$ref"].rsplit("/", 1)[1]], at)
        if "anyOf" in schema:
            found = [self._wrong(value, option, at) for option in schema["anyOf"]]
            return None if None in found else found[0]
        kinds = schema.get("type", list(_TYPES))
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(_is(value, kind) for kind in kinds):
            return f"{at}: {value!r} is not {kinds}"
        if "enum" in schema and value not in schema["enum"]:
            return f"{at}: {value!r} is not one of {schema['enum']}"
        if isinstance(value, dict):
            return self._wrong_member(value, schema, at)
        if isinstance(value, list):
            inner = (self._wrong(v, schema.get("items", {}), f"{at}[]") for v in value)
            return next(filter(None, inner), None)
        return None

    def _wrong_member(self, value: dict[str, Any], schema: dict[str, Any], at: str) -> str | None:
        for name in schema.get("required", []):
            if name not in value:
                return f"{at}.{name} is missing"
        known = schema.get("properties", {})
        if schema.get("additionalProperties") is False and not value.keys() <= known.keys():
            return f"{at} has more than it should: {sorted(value.keys() - known.keys())}"
        members = (self._wrong(v, known.get(n, {}), f"{at}.{n}") for n, v in value.items())
        return next(filter(None, members), None)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])
