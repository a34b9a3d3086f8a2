"""The OpenAPI document as one page of plain HTML: no script, headings in order, real tables."""

import json
from typing import Any

from django.template.loader import render_to_string
from django.utils.text import slugify


def render(document: dict[str, Any], stylesheet: str) -> str:
    """HTML of the whole contract."""
    schemas = document["components"]["schemas"]
    groups: dict[str, list[dict[str, Any]]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups[operation["tags"][0]].append(_entry(path, method, operation))
    return render_to_string(
        "api_docs.html",
        {
            "info": document["info"],
            "stylesheet": stylesheet,
            "groups": [
                {"name": name, "anchor": slugify(name), "entries": entries}
                for name, entries in groups.items()
            ],
            "schemas": [
                {"name": name, "anchor": f"schema-{name}", "rows": _rows(schema)}
                for name, schema in schemas.items()
            ],
        },
    )


def _entry(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return {
        "anchor": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "says": operation.get("description", ""),
        "needs": [_needs(option) for option in operation["security"]],
        "parameters": [
            {
                "name": parameter["name"],
                "where": parameter["in"],
                "type": _type(parameter["schema"]),
                "says": parameter.get("description", ""),
            }
            for parameter in operation.get("parameters", [])
        ],
        "body": _rows(body["schema"]) if body else [],
        "body_link": _link(body["schema"]) if body else None,
        "example": _pretty(body.get("example")),
        "answers": [_answer(*answer) for answer in operation["responses"].items()],
    }


def _answer(status: str, answer: dict[str, Any]) -> dict[str, Any]:
    ((_, content),) = answer["content"].items()
    return {
        "status": status,
        "says": answer["description"].replace("`", ""),
        "link": _link(content["schema"]),
        "example": _pretty(content.get("example")),
    }


def _needs(option: dict[str, list[str]]) -> str:
    ((scheme, scopes),) = option.items()
    said = {
        "runtimeKey": "API key",
        "reviewerToken": "reviewer token",
        "session": "signed-in session",
    }[scheme]
    return f"{said} with {', '.join(scopes)}" if scopes else said


def _rows(schema: dict[str, Any], prefix: str = "") -> list[dict[str, Any]]:
    """Members of an object, those of nested objects below their own with a dotted name."""
    rows = []
    for name, member in schema.get("properties", {}).items():
        rows.append(
            {
                "name": prefix + name,
                "type": _type(member),
                "link": _link(member),
                "required": name in schema.get("required", []),
                "says": member.get("description", ""),
            }
        )
        rows += _rows(member, f"{prefix}{name}.")
        rows += _rows(member.get("items", {}), f"{prefix}{name}[].")
    return rows


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " | ".join("null" if word is None else str(word) for word in schema["enum"])
    kind = schema.get("type", "any")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if "minimum" in schema and "maximum" in schema:
        return f"{text} {schema['minimum']} to {schema['maximum']}"
    if "maxLength" in schema:
        return f"{text}, at most {schema['maxLength']} characters"
    return text


def _link(schema: dict[str, Any]) -> str | None:
    for option in (schema, *schema.get("anyOf", []), *schema.get("allOf", [])):
        if "$ref" in option:
            return str(option["$ref"]).rsplit("/", 1)[1]
    return None


def _pretty(example: Any) -> str:
    return "" if example is None else json.dumps(example, indent=2, ensure_ascii=False)
