"""The catalogue as this process knows it: facts about tools, by catalogue version.

Reading the newest version's stamp is one small statement; tools are read again only when it has
changed. The fast path of a claim trusts the cache and lets its own statement compare the stamp.
"""

import json
from dataclasses import dataclass, field, fields
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """How one tool behaves. A tool that is not in the catalogue has `version` None."""

    name: str
    version: int | None = None
    tool_class: str = "unsafe"
    provider: str = ""
    reconciler: str = ""
    provider_object: str = ""
    lookups: tuple[str, ...] = ()
    uniqueness_guard: str = ""
    accepts_key: bool = False
    key_retention_hours: int | None = None
    client_timeout_seconds: int = 80
    client_tries: int = 1
    provider_max_seconds: int = 900
    marker: bool = True
    lease_seconds: int = 60
    amount_pointer: str = ""
    currency_pointer: str = ""
    currency: str = ""
    amount_unit: str = "minor"
    exponents: dict[str, int] = field(default_factory=dict)
    redact: tuple[str, ...] = ()
    retention_days: int = 365
    attempts_transient: int = 5
    attempts_permanent: int = 0
    attempts_per_goal: int = 3

    @property
    def is_registered(self) -> bool:
        return self.version is not None

    @property
    def emission_seconds(self) -> int:
        """How long after its permit one attempt may still put bytes on the wire."""
        return self.client_timeout_seconds * self.client_tries

    @property
    def retention_seconds(self) -> int | None:
        """How long the provider keeps our key, where it takes one."""
        if not self.accepts_key or self.key_retention_hours is None:
            return None
        return self.key_retention_hours * 3600

    @property
    def dedupes(self) -> bool:
        """Whether the provider makes two sends under our key into one effect."""
        return self.tool_class == "idempotent" and self.accepts_key


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every current tool, as of one version. Version 0 is the empty installation.

    `stamp` tells two catalogues apart: version and digest of the newest publication.
    """

    version: int
    stamp: str
    tools: dict[str, ToolFacts]

    def facts(self, name: str) -> ToolFacts:
        """The tool's facts, or the unsafe defaults of a tool that nobody registered."""
        return self.tools.get(name) or ToolFacts(name)


_COLUMNS: Final = tuple(item.name for item in fields(ToolFacts))
#: The stamp of the newest publication; empty where nothing was ever published.
STAMP: Final = """coalesce((SELECT version || ':' || sha256 FROM operations_catalogueversion
                            ORDER BY version DESC LIMIT 1), '')"""
_LOAD: Final = f"""
SELECT {STAMP}, {", ".join(_COLUMNS)}
  FROM (SELECT) AS one LEFT JOIN operations_tool ON superseded_in IS NULL
"""  # noqa: S608
_ONE: Final = f"SELECT {', '.join(_COLUMNS)} FROM operations_tool"  # noqa: S608

_known = Catalogue(0, "", {})


def known() -> Catalogue:
    """The cached catalogue, however old; whoever uses it compares its stamp afterwards."""
    return _known


def current(cur: Any) -> Catalogue:
    """The catalogue as it is now: one small statement where nothing has changed."""
    cur.execute(f"SELECT {STAMP}")
    return stamped(cur, cur.fetchone()[0])


def stamped(cur: Any, stamp: str) -> Catalogue:
    """The cached catalogue if it bears this stamp, else the one that is read now."""
    global _known
    if _known.stamp != stamp:
        _known = _load(cur)
    return _known


def facts(cur: Any, name: str) -> ToolFacts:
    """What is known about one tool now."""
    return current(cur).facts(name)


def facts_of(cur: Any, name: str, version: int | None) -> ToolFacts:
    """The facts that an operation was recorded under, whatever the catalogue says today."""
    if version is None:
        return ToolFacts(name)
    now = _known.facts(name)
    if now.version == version:
        return now
    cur.execute(f"{_ONE} WHERE name = %s AND version = %s", (name, version))
    row = cur.fetchone()
    return _facts(row) if row else ToolFacts(name)


def _load(cur: Any) -> Catalogue:
    # One statement, so that the stamp and the tools belong together.
    cur.execute(_LOAD)
    rows = cur.fetchall()
    stamp: str = rows[0][0]
    tools = {row[1]: _facts(row[1:]) for row in rows if row[1] is not None}
    return Catalogue(int(stamp.partition(":")[0] or 0), stamp, tools)


def _facts(values: tuple[Any, ...]) -> ToolFacts:
    read = dict(zip(_COLUMNS, values, strict=True))
    for name in ("lookups", "exponents", "redact"):
        if isinstance(read[name], str | bytes):
            read[name] = json.loads(read[name])
    return ToolFacts(**read | {"lookups": tuple(read["lookups"]), "redact": tuple(read["redact"])})
