"""The provider as the registry meets it: its schema, what it offers, and what it refuses."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from reconcilers.evidence import Stage, Way
from reconcilers.providers.base import (
    AccountAccess,
    BadConfig,
    ConfigField,
    Gate,
    Provider,
    Session,
)
from reconcilers.providers.sql.rows import COLUMNS
from reconcilers.providers.sql.session import SqlSession

ROW: Final = Way(
    name="row", lookup_class="A", words="the row with our key, on the primary", exhaustive=True
)
TOMBSTONE: Final = Way(
    name="tombstone",
    lookup_class="T",
    words="our own row under the same unique key",
    exhaustive=True,
    opt_in=True,
)

#: Weaker ones send the password to whoever answers.
TLS_MODES: Final = ("verify-full", "verify-ca", "require", "disable")

_PARAMETER: Final = re.compile(r"(?<!%)%(?:\((\w*)\)s)?")
_COMMENT: Final = re.compile(r"--|/\*")
_STAGES: Final = tuple(stage.value for stage in Stage)


class SqlProvider(Provider):
    """One database of the customer's, asked by the unique key that the call itself has written."""

    kind = "sql"
    title = "Postgres"
    default_object = "row"
    limits: ClassVar[Mapping[str, float]] = {"*": 200.0}
    concurrency = 8
    fields = (
        ConfigField(name="host", help="of the primary", required=True),
        ConfigField(name="port", help="default 5432", type=int),
        ConfigField(name="dbname", help="the database", required=True),
        ConfigField(name="user", help="a role that may only read", required=True),
        ConfigField(name="password", help="of that role", secret=True, required=True),
        ConfigField(name="tls", help="how the server proves itself", choices=TLS_MODES),
        ConfigField(name="tls_root", help="PEM of the authority, default the system's", long=True),
        ConfigField(
            name="query", help="SELECT … WHERE key = %(key)s, without ;", required=True, long=True
        ),
        ConfigField(name="columns", help="what its columns are called here", type=dict),
        ConfigField(name="statuses", help="done, in_flight, not_reached: lists", type=dict),
        ConfigField(name="txid_query", help="SELECT the recorded xid8 by %(key)s", long=True),
        ConfigField(name="account", help="system identifier/database; learnt where not given"),
        ConfigField(name="tombstone", help="INSERT … ON CONFLICT (key) DO NOTHING", long=True),
        ConfigField(name="tombstone_status", help="the status that marks a tombstone"),
        ConfigField(name="tombstone_user", help="a role that may insert one"),
        ConfigField(name="tombstone_password", help="of that role", secret=True),
        ConfigField(name="timeout_seconds", help="for one statement, default 5", type=int),
        ConfigField(name="deadline_hours", help="until a person is asked, default 24", type=int),
        ConfigField(
            name="signed_release_above",
            help="per currency, minor units above which absence needs a signed release",
            type=dict,
        ),
        ConfigField(name="limits", help="queries per second: {query: 200}", type=dict),
    )

    def ways(self, object_kind: str) -> tuple[Way, ...]:
        """The row; a tombstone only where the account has one."""
        return (ROW, TOMBSTONE) if (object_kind or self.default_object) == "row" else ()

    def ways_of(self, object_kind: str, config: Mapping[str, Any]) -> tuple[Way, ...]:
        """As above, without the tombstone where none is configured."""
        ways = self.ways(object_kind)
        return ways if config.get("tombstone") else tuple(way for way in ways if way != TOMBSTONE)

    def open(self, access: AccountAccess, gate: Gate) -> Session:
        """A session; it connects when it is asked."""
        return SqlSession(access, gate, connections=self.concurrency)

    def check_account(self, environment: str, values: Mapping[str, Any]) -> None:
        """Raise BadConfig for what Postgres would only refuse at the first question, or never."""
        _check_query("query", values["query"], needs="key")
        if values.get("txid_query"):
            _check_query("txid_query", values["txid_query"], needs="key")
        for name in values.get("columns", {}):
            if name not in COLUMNS:
                raise BadConfig(f"columns: {name} is none of {', '.join(COLUMNS)}")
        if not all(isinstance(name, str) and name for name in values.get("columns", {}).values()):
            raise BadConfig("columns: expected names of columns")
        for stage, words in values.get("statuses", {}).items():
            if stage not in _STAGES:
                raise BadConfig(f"statuses: {stage} is none of {', '.join(_STAGES)}")
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise BadConfig(f"statuses: expected a list of words for {stage}")
        _check_tombstone(values)
        for name in ("port", "timeout_seconds", "deadline_hours"):
            if values.get(name, 1) <= 0:
                raise BadConfig(f"{name}: expected a number above zero")
        for name in ("limits", "signed_release_above"):
            members = values.get(name, {}).values()
            if not all(isinstance(value, int | float) and value > 0 for value in members):
                raise BadConfig(f"{name}: expected numbers above zero")


def _check_query(name: str, text: str, *, needs: str) -> None:
    first = text.split(None, 1)[0].lower() if text.strip() else ""
    if first not in {"select", "with"}:
        raise BadConfig(f"{name}: expected a SELECT")
    _check_statement(name, text, needs=needs)


def _check_statement(name: str, text: str, *, needs: str) -> None:
    if ";" in text or _COMMENT.search(text):
        raise BadConfig(f"{name}: expected one statement, without ; or comments")
    found = {match.group(1) for match in _PARAMETER.finditer(text.replace("%%", ""))}
    if None in found or "" in found:
        raise BadConfig(f"{name}: write a percent sign as %%, and parameters as %(key)s")
    if needs not in found:
        raise BadConfig(f"{name}: does not use %({needs})s")
    if found - {"key", "since"}:
        raise BadConfig(f"{name}: the parameters are %(key)s and %(since)s")


def _check_tombstone(values: Mapping[str, Any]) -> None:
    """All of it or nothing: a tombstone is a write, and has credentials of its own."""
    names = ("tombstone", "tombstone_status", "tombstone_user", "tombstone_password")
    given = [name for name in names if values.get(name)]
    if not given:
        return
    for name in names:
        if name not in given:
            raise BadConfig(f"{name}: missing; a tombstone needs {', '.join(names)}")
    text = values["tombstone"]
    if not re.match(r"\s*insert\s+into\s", text, re.IGNORECASE):
        raise BadConfig("tombstone: expected an INSERT")
    if not re.search(r"\bon\s+conflict\s*\([^)]+\)\s*do\s+nothing\s*$", text, re.IGNORECASE):
        # Without the columns Postgres would not insist on a unique index, and accept every row.
        raise BadConfig("tombstone: expected it to end in ON CONFLICT (column) DO NOTHING")
    _check_statement("tombstone", text, needs="key")
    marker = values.get("columns", {}).get("marker", COLUMNS["marker"])
    target = re.findall(r"[\w.]+", text[text.lower().rindex("conflict") + len("conflict") :])
    if marker not in target:
        raise BadConfig(f"tombstone: expected ON CONFLICT on {marker}, where our key is")
    if values["tombstone_user"] == values["user"]:
        raise BadConfig("tombstone_user: expected a role of its own; the other one only reads")
    listed = values.get("statuses", {}).values()
    if any(values["tombstone_status"] in words for words in listed):
        raise BadConfig("tombstone_status: is also the status of an effect")
