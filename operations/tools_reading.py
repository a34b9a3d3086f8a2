"""Reading the catalogue as agents see it, with the tools in use that nobody registered."""

from typing import Any, Final

from operations import catalogue, paging, rows
from operations.actors import Scope
from operations.catalogue import ToolFacts

#: Unregistered names shown; whoever puts data into tool names gets no longer list for it.
MAX_UNREGISTERED: Final = 200
#: A loose index scan: one probe for each distinct name, however many operations there are.
_NAMES: Final = """
WITH RECURSIVE names AS (
    (SELECT tool FROM operations_operation
     WHERE environment = %(environment)s AND namespace = %(namespace)s ORDER BY tool LIMIT 1)
    UNION ALL
    SELECT (SELECT o.tool FROM operations_operation o
            WHERE o.environment = %(environment)s AND o.namespace = %(namespace)s
              AND o.tool > names.tool ORDER BY o.tool LIMIT 1)
    FROM names WHERE names.tool IS NOT NULL
)
SELECT tool FROM names
WHERE tool IS NOT NULL AND NOT EXISTS (
    SELECT FROM operations_tool t WHERE t.name = names.tool AND t.superseded_in IS NULL)
LIMIT %(limit)s
"""


def list_tools(scope: Scope | None = None) -> list[dict[str, Any]]:
    """Every tool of the current catalogue by name, then those in use that are not in it."""
    with rows.hot_cursor() as cur:
        known = catalogue.current(cur)
        unregistered: set[str] = set()
        for environment, namespace in paging.scopes_of(cur, scope):
            params = {"environment": environment, "namespace": namespace}
            cur.execute(_NAMES, params | {"limit": MAX_UNREGISTERED})
            unregistered.update(row[0] for row in cur.fetchall())
    facts = [known.tools[name] for name in sorted(known.tools)]
    facts += [ToolFacts(name) for name in sorted(unregistered)[:MAX_UNREGISTERED]]
    return [_document(tool) for tool in facts]


def _document(tool: ToolFacts) -> dict[str, Any]:
    return {
        "name": tool.name,
        "registered": tool.is_registered,
        "version": tool.version,
        "class": tool.tool_class,
        "provider": tool.provider or None,
        "reconciler": tool.reconciler or None,
        "lookups": list(tool.lookups),
        "uniqueness_guard": tool.uniqueness_guard or None,
        "key": {"accepts": tool.accepts_key, "retention_hours": tool.key_retention_hours},
        "marker": tool.marker,
        "client_timeout_seconds": tool.client_timeout_seconds,
        "client_tries": tool.client_tries,
        "provider_max_seconds": tool.provider_max_seconds,
        "lease_seconds": tool.lease_seconds,
        "amount": {
            "pointer": tool.amount_pointer or None,
            "currency_pointer": tool.currency_pointer or None,
            "currency": tool.currency or None,
            "unit": tool.amount_unit,
        },
        "redact": list(tool.redact),
        "retention_days": tool.retention_days,
        "attempts": {
            "transient": tool.attempts_transient,
            "permanent": tool.attempts_permanent,
            "per_goal": tool.attempts_per_goal,
        },
    }
