"""Form bodies as Stripe reads them: `metadata[idem_key]=k`, `created[gte]=1`, `expand[]=x`."""

import hashlib
import json
import re
from typing import Any
from urllib.parse import parse_qsl

_PART = re.compile(r"\[([^\[\]]*)\]")


def decode(text: str) -> dict[str, Any]:
    """Nested dictionaries of strings; `name[]` and `name[0]` make lists."""
    tree: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        head, bracket, _ = name.partition("[")
        path = [head, *_PART.findall(name)] if bracket else [name]
        _place(tree, path, value)
    lists: dict[str, Any] = _lists(tree)
    return lists


def _place(tree: dict[str, Any], path: list[str], value: str) -> None:
    for part in path[:-1]:
        below = tree.setdefault(part, {})
        if not isinstance(below, dict):
            below = tree[part] = {}
        tree = below
    last = path[-1] or str(len(tree))
    tree[last] = value


def _lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        return [_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _lists(item) for key, item in value.items()}


def digest(method: str, path: str, params: dict[str, Any]) -> str:
    """What "the same parameters" means to the idempotency layer."""
    text = json.dumps([method, path, params], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
