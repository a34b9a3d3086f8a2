"""What tests and people ask of the simulator itself: its faults, settings and the book of effects.

No key: it is bound to the loopback address and holds nothing real.
"""

import json
import sqlite3
from collections import Counter, deque
from typing import Any

from crashlab.provider.answers import Refused, error
from crashlab.provider.book import Book
from crashlab.provider.faults import PRESETS, Faults, Rule, Schedule

#: name -> what it does. Any other name is refused, so that a typo is not silence.
SETTINGS = {
    "search_lag_seconds": "new objects appear in search so much later",
    "search_flap": "chance (0 to 1) that a search finds nothing",
    "key_retention_seconds": "how long a key is kept",
    "stripe_honours_keys": "whether /v1 dedupes by key",
    "mail_honours_keys": "whether /mail/send dedupes by key",
    "entitlement_honours_keys": "whether /entitlements/grant dedupes by key",
    "ledger_line_honours_keys": "whether /ledger-lines dedupes by key",
    "key_permissions": 'what restricted keys may do: {"rk_…": ["rak_charge_read", …]}',
    "webhooks": 'where events go: [{"url", "secret", "account"?, "livemode"?, "old_secret"?}]',
}


class Admin:
    def __init__(self, book: Book, faults: Faults) -> None:
        self._book = book
        self._faults = faults
        self.journal: deque[dict[str, Any]] = deque(maxlen=5000)
        for row in book.reader.execute("SELECT seq, document FROM rule ORDER BY seq"):
            faults.add(row["seq"], json.loads(row["document"]))
        stored = book.reader.execute("SELECT value FROM setting WHERE name = 'schedule'").fetchone()
        if stored is not None:
            faults.schedule = Schedule(**json.loads(stored["value"]))

    async def answer(self, method: str, path: str, params: dict[str, Any]) -> Any:
        """The document for one admin request; raises Refused for what is unknown or wrong."""
        try:
            return await self._routed(method, path, params)
        except (ValueError, TypeError, KeyError) as problem:
            raise Refused(400, error("invalid_request_error", str(problem))) from problem

    async def _routed(self, method: str, path: str, params: dict[str, Any]) -> Any:
        match method, path:
            case "GET", "/ledger":
                return ledger(self._book.reader, params)
            case "GET", "/_requests":
                return {"requests": list(self.journal)}
            case "GET", "/_faults":
                return {"rules": [vars(rule) for rule in self._faults.rules]}
            case "POST", "/_faults":
                return await self._add(params)
            case "DELETE", "/_faults":
                await self._book.write(lambda connection: connection.execute("DELETE FROM rule"))
                self._faults.rules.clear()
                return {"rules": []}
            case "POST", "/_schedule":
                return await self._set_schedule(params)
            case "GET", "/_settings":
                return {"settings": self._settings(), "known": SETTINGS}
            case "POST", "/_settings":
                return await self._set(params)
        raise Refused(404, error("invalid_request_error", f"No such page: {path}"))

    async def remember(self, rule: Rule) -> None:
        """Keeps a rule's counters, so that "once" is still once after a restart."""
        document = json.dumps(vars(rule))
        await self._book.write(
            lambda connection: connection.execute(
                "UPDATE rule SET document = ? WHERE seq = ?", (document, rule.id)
            )
        )

    async def _add(self, document: dict[str, Any]) -> dict[str, Any]:
        Rule.parse(0, document)

        def work(connection: sqlite3.Connection) -> int:
            cursor = connection.execute(
                "INSERT INTO rule (document) VALUES (?)", (json.dumps(document),)
            )
            return cursor.lastrowid or 0

        return vars(self._faults.add(await self._book.write(work), document))

    async def _set_schedule(self, document: dict[str, Any]) -> dict[str, Any]:
        schedule = Schedule(int(document.get("seed", 0)), dict(document.get("chances", {})))
        if unknown := set(schedule.chances) - set(PRESETS):
            raise ValueError(f"no such preset: {', '.join(sorted(unknown))}")
        kept = {"seed": schedule.seed, "chances": schedule.chances}
        await self._book.write(lambda connection: _store(connection, "schedule", kept))
        self._faults.schedule = schedule
        return kept

    async def _set(self, values: dict[str, Any]) -> dict[str, Any]:
        if unknown := set(values) - set(SETTINGS):
            raise ValueError(f"no such setting: {', '.join(sorted(unknown))}")

        def work(connection: sqlite3.Connection) -> None:
            for name, value in values.items():
                _store(connection, name, value)

        await self._book.write(work)
        return {"settings": self._settings()}

    def _settings(self) -> dict[str, Any]:
        rows = self._book.reader.execute("SELECT name, value FROM setting ORDER BY name")
        return {row["name"]: json.loads(row["value"]) for row in rows}


def ledger(connection: sqlite3.Connection, params: dict[str, Any]) -> dict[str, Any]:
    """The judge: every effect there was, and how many each intent had.

    Filters: `intent`, `marker`, `idem_key`, `kind`, `account`. `duplicates` names the intents with
    more than one effect of a kind.
    """
    names = [name for name in ("intent", "marker", "idem_key", "kind", "account") if name in params]
    where = " AND ".join(f"{name} = ?" for name in names) or "1"
    query = f"SELECT * FROM effect WHERE {where} ORDER BY seq"  # noqa: S608 (names from above)
    rows = connection.execute(query, [params[name] for name in names]).fetchall()
    effects = [
        dict(row) | {"livemode": bool(row["livemode"]), "details": json.loads(row["details"])}
        for row in rows
    ]
    counts = Counter(f"{row['kind']}:{row['intent']}" for row in rows if row["intent"])
    return {
        "count": len(effects),
        "effects": effects,
        "per_intent": dict(Counter(row["intent"] for row in rows if row["intent"])),
        "duplicates": sorted(name for name, count in counts.items() if count > 1),
    }


def _store(connection: sqlite3.Connection, name: str, value: Any) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", (name, json.dumps(value))
    )
