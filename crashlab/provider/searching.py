"""Search: an index that lags behind and goes back and forth, as the real one does.

Grammar: clauses `field:"value"`, `metadata["key"]:"value"`, `created>123`, a leading `-` negates;
joined by AND or by OR, never both. Metadata matches whole values, whatever their case.
"""

import json
import random
import re
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from crashlab.provider.accounts import Account
from crashlab.provider.answers import invalid
from crashlab.provider.faults import Fault
from crashlab.provider.reading import RESOURCES, limit_of
from crashlab.provider.shelf import setting

SEARCHABLE = frozenset({"payment_intents", "charges", "customers", "invoices", "subscriptions"})
_CLAUSE = re.compile(
    r"""\s*(-?)(metadata\[(?:"(?:[^"\\]|\\.)*"|'[^']*')\]|[a-z_.]+)\s*(:|<=|>=|<|>|~)\s*"""
    r"""("(?:[^"\\]|\\.)*"|'[^']*'|null|[0-9A-Za-z_.@+-]+)\s*"""
)
_JOINT = re.compile(r"(AND|OR)\b", re.IGNORECASE)
Test = Callable[[dict[str, Any]], bool]


def answer(
    connection: sqlite3.Connection,
    account: Account,
    resource: str,
    params: dict[str, Any],
    fault: Fault,
) -> dict[str, Any]:
    if not params.get("query"):
        raise invalid("Missing required param: query.", code="parameter_missing", param="query")
    test = parse(params["query"])
    limit = limit_of(params, fault)
    hits: list[dict[str, Any]] = []
    if not fault.search_empty and random.random() >= setting(connection, "search_flap", 0):
        rows = connection.execute(
            "SELECT body FROM object WHERE account = ? AND livemode = ? AND kind = ?"
            " AND searchable_at <= ? ORDER BY seq DESC",
            (account.id, account.livemode, RESOURCES[resource][0], time.time()),
        ).fetchall()
        # The index never forgets: what was deleted is shown as it was.
        rows += connection.execute(
            "SELECT body FROM buried WHERE account = ? AND livemode = ? AND kind = ?",
            (account.id, account.livemode, RESOURCES[resource][0]),
        ).fetchall()
        hits = [body for row in rows if test(body := json.loads(row["body"]))]
    start = int(params.get("page") or 0)
    more = len(hits) > start + limit
    return {
        "object": "search_result",
        "data": hits[start : start + limit],
        "has_more": more,
        "next_page": str(start + limit) if more else None,
        "url": f"/v1/{resource}/search",
    }


def parse(query: str) -> Test:
    """The query as a predicate over objects; raises Refused 400 for what is no query."""
    tests: list[Test] = []
    joints: set[str] = set()
    position = 0
    while True:
        match = _CLAUSE.match(query, position)
        if match is None:
            raise invalid(
                f"Your search query is malformed near: {query[position:][:40]}", param="query"
            )
        tests.append(_clause(*match.groups()))
        position = match.end()
        if position == len(query):
            break
        joint = _JOINT.match(query, position)
        if joint is None:
            raise invalid("Clauses are joined by AND or OR.", param="query")
        joints.add(joint[1].upper())
        position = joint.end()
    if len(joints) > 1:
        raise invalid("You cannot combine AND and OR in one query.", param="query")
    if len(tests) > 10:
        raise invalid("A query takes up to 10 clauses.", param="query")
    together = any if joints == {"OR"} else all
    return lambda body: together(test(body) for test in tests)


def _clause(minus: str, field: str, operator: str, literal: str) -> Test:
    value = _unquoted(literal)
    if field.startswith("metadata["):
        name = _unquoted(field[9:-1])
        held: Callable[[dict[str, Any]], Any] = lambda body: body.get("metadata", {}).get(name)  # noqa: E731
    else:
        held = lambda body: body.get(field)  # noqa: E731
    return lambda body: _compare(held(body), operator, value, literal == "null") is not bool(minus)


def _compare(held: Any, operator: str, value: str, is_null: bool) -> bool:
    if is_null:
        return held is None
    if held is None:
        return False
    if operator in ("<", ">", "<=", ">="):
        left, right = float(held), float(value)
        return {
            "<": left < right,
            ">": left > right,
            "<=": left <= right,
            ">=": left >= right,
        }[operator]
    if operator == "~":
        return value.lower() in str(held).lower()
    return str(held).lower() == value.lower()


def _unquoted(literal: str) -> str:
    if literal[:1] in "\"'":
        return re.sub(r"\\(.)", r"\1", literal[1:-1])
    return literal
