"""What approvals need of the ledger: that it fits, and which checkpoint a reviewer has seen."""

import base64
from typing import Any

from approvals import statements
from approvals.errors import Refused
from operations.ledger import checkpoints, soundness


def check() -> None:
    """Raise before anything is signed or granted while the ledger does not fit (503)."""
    found = soundness.standing()
    if found is not None:
        refused = Refused("UNAVAILABLE", soundness.sentence(found), check="ledger")
        refused.retryable, refused.retry_after_seconds = True, soundness.RETRY_SECONDS
        raise refused


def seen(cur: Any) -> dict[str, Any]:
    """The `log` member of a statement: the newest checkpoint, which its signer is shown."""
    found = checkpoints.latest(cur)
    if found is None:
        return statements.EMPTY_LOG
    origin, published = found
    root = base64.b64encode(published.root).decode()
    return {"origin": origin, "size": published.size, "root": root}
