"""The arguments of a call as they were received, checked against the fingerprint once more."""

from typing import Any
from uuid import UUID

from approvals.errors import Refused
from operations import canonical


def read(cur: Any, op_id: UUID, fingerprint: str | None) -> Any:
    """The parsed args of an operation; raises ARGS_ERASED, or ARGS_CHANGED where the stored bytes
    no longer have the fingerprint that was asked about.
    """
    cur.execute(
        "SELECT body FROM operations_payload WHERE operation_id = %s AND kind = 'args'"
        " ORDER BY id LIMIT 1",
        (op_id,),
    )
    row = cur.fetchone()
    if row is None or row[0] is None:
        raise Refused("ARGS_ERASED", "The arguments have been erased, so nobody can judge them.")
    args = canonical.parse_strict(bytes(row[0]))
    if canonical.fingerprint(args) != fingerprint:
        raise Refused("ARGS_CHANGED", "The stored arguments no longer match their fingerprint.")
    return args
