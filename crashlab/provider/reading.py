"""GETs: one object by id, and top-level lists: immediately consistent, newest first."""

import json
import re
import sqlite3
from typing import Any

from crashlab.provider.accounts import Account
from crashlab.provider.answers import Refused, error, invalid, missing
from crashlab.provider.faults import Fault
from crashlab.provider.shelf import find

#: URL segment -> object, and the list filters that compare a member of the object for equality.
RESOURCES: dict[str, tuple[str, frozenset[str]]] = {
    "payment_intents": ("payment_intent", frozenset({"customer"})),
    "charges": ("charge", frozenset({"customer", "payment_intent", "transfer_group"})),
    "refunds": ("refund", frozenset({"charge", "payment_intent"})),
    "customers": ("customer", frozenset({"email", "test_clock"})),
    "transfers": ("transfer", frozenset({"destination", "transfer_group"})),
    "payouts": ("payout", frozenset({"destination", "status"})),
    "subscriptions": ("subscription", frozenset({"customer", "status", "test_clock"})),
    "invoices": ("invoice", frozenset({"customer", "status", "subscription"})),
    "test_helpers/test_clocks": ("test_helpers.test_clock", frozenset()),
    "events": ("event", frozenset({"type"})),
}
_PAGING = frozenset({"limit", "starting_after", "ending_before", "created", "expand", "types"})
#: With one of these, a list shows what is under a test clock too.
_PARENTS = frozenset({"customer", "subscription", "test_clock", "payment_intent"})
_COMPARE = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def account_document(account: Account) -> dict[str, Any]:
    """`GET /v1/account`. Stripe's account object names no mode, so `livemode` here is an extra."""
    return {
        "id": account.id,
        "object": "account",
        "business_profile": {"name": f"Simulated {account.id[8:] or 'merchant'}"},
        "charges_enabled": True,
        "country": "US",
        "default_currency": "usd",
        "livemode": account.livemode,
        "payouts_enabled": True,
        "type": "standard",
    }


def answer(
    connection: sqlite3.Connection,
    account: Account,
    path: str,
    params: dict[str, Any],
    fault: Fault,
) -> dict[str, Any]:
    """The document at `path`; raises Refused 404 for what is not there in this account and mode."""
    match = re.fullmatch(r"/v1/((?:test_helpers/)?[a-z_]+)(?:/([A-Za-z0-9_]+))?", path)
    if match is None or match[1] not in RESOURCES:
        message = f"Unrecognized request URL (GET: {path})."
        raise Refused(404, error("invalid_request_error", message))
    kind, filters = RESOURCES[match[1]]
    if match[2] is None:
        return _list(connection, account, path, kind, filters, params, fault)
    body = find(connection, account, kind, match[2])
    if body is None:
        raise missing(kind, match[2], param="intent" if kind == "payment_intent" else "id")
    return body


def limit_of(params: dict[str, Any], fault: Fault) -> int:
    text = str(params.get("limit", 10))
    if not text.isdigit() or not 1 <= int(text) <= 100:
        raise invalid("Invalid limit: it must be between 1 and 100.", param="limit")
    return min(int(text), fault.page_size or 100)


def _list(
    connection: sqlite3.Connection,
    account: Account,
    path: str,
    kind: str,
    filters: frozenset[str],
    params: dict[str, Any],
    fault: Fault,
) -> dict[str, Any]:
    for name in params:
        if name not in filters | _PAGING:
            raise invalid(
                f"Received unknown parameter: {name}", code="parameter_unknown", param=name
            )
    limit = limit_of(params, fault)
    where = ["account = ?", "livemode = ?", "kind = ?"]
    values: list[Any] = [account.id, account.livemode, kind]
    where.append("json_extract(body, '$.deleted') IS NULL")
    if not _PARENTS & set(params):
        where.append("json_extract(body, '$.test_clock') IS NULL")
    if kind == "subscription" and "status" not in params:
        where.append("json_extract(body, '$.status') <> 'canceled'")
    for name in filters & set(params):
        if (name, params[name]) == ("status", "all"):
            continue
        where.append(f"json_extract(body, '$.{name}') = ?")
        values.append(params[name])
    if types := params.get("types"):
        where.append(f"json_extract(body, '$.type') IN ({','.join('?' * len(types))})")
        values += types
    for operator, bound in _bounds(params.get("created")):
        where.append(f"created {operator} ?")
        values.append(bound)
    backwards = "ending_before" in params
    for name, operator in (("starting_after", "<"), ("ending_before", ">")):
        if name in params:
            where.append(f"seq {operator} ?")
            values.append(_seq(connection, account, kind, params[name], name))
    # Nothing of the caller's is in this text: names come from RESOURCES, operators from _COMPARE.
    query = f"SELECT body FROM object WHERE {' AND '.join(where)} ORDER BY seq"  # noqa: S608
    order = "ASC" if backwards else "DESC"
    rows = connection.execute(f"{query} {order} LIMIT ?", (*values, limit + 1)).fetchall()
    page = [json.loads(row["body"]) for row in rows[:limit]]
    if backwards:
        page.reverse()
    return {"object": "list", "data": page, "has_more": len(rows) > limit, "url": path}


def _bounds(created: Any) -> list[tuple[str, int]]:
    if created is None:
        return []
    given = created if isinstance(created, dict) else {"": created}
    bounds = []
    for name, text in given.items():
        if (name and name not in _COMPARE) or not re.fullmatch(r"[0-9]{1,12}", str(text)):
            raise invalid("Invalid timestamp", param="created")
        bounds.append((_COMPARE.get(name, "="), int(text)))
    return bounds


def _seq(
    connection: sqlite3.Connection, account: Account, kind: str, identifier: str, param: str
) -> int:
    row = connection.execute(
        "SELECT seq FROM object WHERE id = ? AND account = ? AND livemode = ? AND kind = ?",
        (identifier, account.id, account.livemode, kind),
    ).fetchone()
    if row is None:
        raise missing(kind, identifier, param=param, status=400)
    return int(row["seq"])
