"""Tools that speak JSON: mail, entitlements, ledger lines. By default mail and ledger lines know no
idempotency key (class N); entitlements honour one. `POST /_settings` turns either about."""

import json
from typing import Any

from crashlab.provider.answers import Outcome, Refused, error, invalid
from crashlab.provider.shelf import Shelf, new_id

#: path -> (kind of effect, prefix of its id, members that the body must hold)
ENDPOINTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "/mail/send": ("mail", "msg", ("to", "subject", "body")),
    "/entitlements/grant": ("entitlement", "ent", ("customer", "plan")),
    "/ledger-lines": ("ledger_line", "line", ("account", "amount", "currency")),
}
#: What honours a key unless a setting says otherwise.
HONOUR_KEYS = {"mail": False, "entitlement": True, "ledger_line": False, "stripe": True}


def parse(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refused(400, error("invalid_request_error", "The body must be a JSON object."))
    return value


def check(path: str, params: dict[str, Any]) -> None:
    for name in ENDPOINTS[path][2]:
        if params.get(name) in (None, ""):
            raise invalid(f"Missing: {name}", code="parameter_missing", param=name)


def perform(shelf: Shelf, path: str, params: dict[str, Any]) -> Outcome:
    """Books the effect at once: whoever asks twice gets two."""
    kind, prefix, _ = ENDPOINTS[path]
    body: dict[str, Any] = {"id": new_id(prefix), "metadata": {}}
    body |= {"amount": _whole(params.get("amount")), "currency": params.get("currency")}
    shelf.effect(kind, body, params)
    return Outcome(200, {"id": body["id"], "object": kind, "status": "accepted"})


def customer_card(identifier: str) -> dict[str, Any]:
    """A customer as a CRM tells of it: made up from the id alone, so that reads need no data."""
    number = sum(map(ord, identifier))
    plan = ("starter", "team", "business")[number % 3]
    return {
        "id": identifier,
        "object": "crm_customer",
        "name": f"Customer {identifier.rpartition('_')[2]}",
        "email": f"{identifier}@example.com",
        "plan": plan,
        "renewal_minor": {"starter": 1900, "team": 9900, "business": 49900}[plan],
        "currency": "usd",
    }


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
