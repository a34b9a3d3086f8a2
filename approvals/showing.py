"""What a person is shown of a call: `text/v1` over the request's document and the args.

Only the immutable request document and the args go in, so whoever holds both can compute the
digest again.
"""

import json
from collections.abc import Mapping
from typing import Any

from approvals import display
from approvals.display import Display


def of_request(document: Mapping[str, Any], args: Any) -> Display:
    """The display of an approval request."""
    policy = document["policy"]
    facts = _facts(document)
    facts["rule"] = _quote(f"{policy['rule']} (policy {policy['id']} v{policy['version']})")
    facts["reviewers"] = f"{policy['quorum']} with {policy['min_custody']}"
    return display.render(facts, args, tuple(document["redacted"]))


def of_operation(document: Mapping[str, Any], args: Any, redacted: tuple[str, ...]) -> Display:
    """The display of an operation that a person settles; `document` has the same members."""
    return display.render(_facts(document), args, redacted)


def of_erased(document: Mapping[str, Any]) -> Display:
    """The display of an operation whose arguments are gone: nobody can inspect them any more."""
    return display.render(_facts(document), None, ("",))


def _facts(document: Mapping[str, Any]) -> dict[str, str]:
    facts = {
        "tool": _quote(document["call"]["tool"]),
        "class": _quote(document["tool_class"]),
        "environment": _quote(document["scope"]["environment"]),
        "agent": _quote(document["agent"]["id"]),
    }
    if amount := document["amount"]:
        facts["amount"] = display.money(amount["minor"], amount["currency"], amount["exponent"])
    return facts


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
