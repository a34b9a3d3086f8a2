"""Objects, effects, events and due work: what an endpoint may do inside its transaction."""

import json
import secrets
import sqlite3
import time
from dataclasses import dataclass
from typing import Any

from crashlab.provider.accounts import Account
from crashlab.provider.faults import Fault

API_VERSION = "2026-10-28.endive"


@dataclass(frozen=True)
class Call:
    """One write as its endpoint sees it. `intent` is the lab's own note (header `X-Lab-Intent`):
    the book keeps it for the judge, and no endpoint ever gives it back."""

    account: Account
    method: str
    path: str
    params: dict[str, Any]
    idem_key: str | None
    request_id: str
    fault: Fault
    intent: str | None = None

    @property
    def marker(self) -> str | None:
        metadata = self.params.get("metadata")
        return metadata.get("idem_key") if isinstance(metadata, dict) else None

    def document(self) -> dict[str, Any]:
        return {
            "account": [self.account.id, self.account.livemode],
            "method": self.method,
            "path": self.path,
            "params": self.params,
            "idem_key": self.idem_key,
            "request_id": self.request_id,
            "fault": self.fault.document(),
            "intent": self.intent,
        }

    @classmethod
    def restore(cls, document: dict[str, Any]) -> "Call":
        account = Account(document["account"][0], bool(document["account"][1]))
        return cls(**document | {"account": account, "fault": Fault(**document["fault"])})


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"


class Shelf:
    """One open transaction on behalf of one call."""

    def __init__(self, connection: sqlite3.Connection, call: Call) -> None:
        self.connection = connection
        self.call = call
        self.now = time.time()
        self.events: list[dict[str, Any]] = []

    def get(self, kind: str, identifier: str) -> dict[str, Any] | None:
        return find(self.connection, self.call.account, kind, identifier)

    def clock_of(self, customer: str | None) -> str | None:
        """The test clock that a customer, and all that is theirs, lives under."""
        found = self.get("customer", customer) if customer else None
        return found.get("test_clock") if found else None

    def put(self, body: dict[str, Any]) -> None:
        """Stores a new object; its `object` member says which kind it is."""
        lag = self.call.fault.search_lag_seconds
        if lag is None:
            lag = float(setting(self.connection, "search_lag_seconds", 0))
        self.connection.execute(
            "INSERT INTO object (id, account, livemode, kind, created, searchable_at, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                body["id"],
                self.call.account.id,
                self.call.account.livemode,
                body["object"],
                body["created"],
                self.now + lag,
                json.dumps(body),
            ),
        )

    def change(self, body: dict[str, Any]) -> None:
        self.connection.execute(
            "UPDATE object SET body = ? WHERE id = ?", (json.dumps(body), body["id"])
        )

    def bury(self, body: dict[str, Any], stub: dict[str, Any]) -> None:
        """Leaves `stub` in its place. Search goes on showing the object as it was."""
        self.change(stub)
        self.connection.execute(
            "INSERT OR REPLACE INTO buried (id, account, livemode, kind, body)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                body["id"],
                self.call.account.id,
                self.call.account.livemode,
                body["object"],
                json.dumps(body),
            ),
        )

    def event(self, kind: str, body: dict[str, Any]) -> None:
        event = {
            "id": new_id("evt"),
            "object": "event",
            "api_version": API_VERSION,
            "created": int(self.now),
            "data": {"object": body},
            "livemode": self.call.account.livemode,
            "pending_webhooks": 0,
            "request": {"id": self.call.request_id, "idempotency_key": self.call.idem_key},
            "type": kind,
        }
        self.put(event)
        # As it was at this moment: the object changes under its later events.
        self.events.append(json.loads(json.dumps(event)))

    def effect(self, kind: str, body: dict[str, Any], details: dict[str, Any]) -> None:
        """Books that something happened in the world. Nothing in here ever takes one back."""
        metadata = body.get("metadata") or {}
        marker = metadata.get("idem_key") or self.call.marker
        self.connection.execute(
            "INSERT INTO effect (kind, object_id, account, livemode, marker, idem_key, intent,"
            " amount, currency, details, request_id, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                kind,
                body["id"],
                self.call.account.id,
                self.call.account.livemode,
                marker,
                self.call.idem_key,
                self.call.intent or marker or self.call.idem_key,
                body.get("amount"),
                body.get("currency"),
                json.dumps(details),
                self.call.request_id,
                self.now,
            ),
        )

    def settle_later(self, body: dict[str, Any], status: str) -> None:
        """What is under way ends in `status`, where the fault says when."""
        if self.call.fault.processing_seconds is not None:
            data = {"call": self.call.document(), "id": body["id"], "kind": body["object"]}
            self.later(self.call.fault.processing_seconds, "settle", data | {"status": status})

    def fail_later(self, body: dict[str, Any]) -> None:
        """What has succeeded fails all the same, where the fault says when."""
        if self.call.fault.fails_later_seconds is not None:
            data = {"call": self.call.document(), "id": body["id"], "kind": body["object"]}
            self.later(self.call.fault.fails_later_seconds, "settle", data | {"status": "failed"})

    def later(self, seconds: float, kind: str, data: dict[str, Any]) -> int:
        cursor = self.connection.execute(
            "INSERT INTO due_work (due_at, kind, data) VALUES (?, ?, ?)",
            (self.now + seconds, kind, json.dumps(data)),
        )
        return cursor.lastrowid or 0


def find(
    connection: sqlite3.Connection, account: Account, kind: str, identifier: str
) -> dict[str, Any] | None:
    row = connection.execute(
        "SELECT body FROM object WHERE id = ? AND account = ? AND livemode = ? AND kind = ?",
        (identifier, account.id, account.livemode, kind),
    ).fetchone()
    body: dict[str, Any] | None = json.loads(row["body"]) if row else None
    return body


def setting(connection: sqlite3.Connection, name: str, default: Any) -> Any:
    row = connection.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
    return json.loads(row["value"]) if row else default
