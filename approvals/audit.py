"""Facts about people, keys and refused signatures, in the same ledger as everything else.

They belong to no operation's version, so they carry its handle in `data`. What concerns the whole
installation (a key enrolled, a token made) has the empty scope.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from operations.actors import Scope

INSTALLATION: Final = Scope("", "")


def note(
    cur: Any, event_type: str, *, actor: str, data: Mapping[str, Any], scope: Scope = INSTALLATION
) -> None:
    """Append one event. `data`: ids, words and digests; never args, tokens or keys' secrets."""
    cur.execute(
        """
        INSERT INTO operations_event (environment, namespace, type, actor, data)
        VALUES (%s, %s, %s, %s, %s::jsonb)
        """,
        (*scope, event_type, actor, json.dumps(data, default=str)),
    )
