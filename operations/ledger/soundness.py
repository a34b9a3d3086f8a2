"""Asked before anything is signed, granted or executed: does the ledger still fit?

Reads what the sequencer and the running check have marked, and compares the checkpoint that is
kept outside the database, at most once a second in each process.
"""

import time
from typing import Final

from django.db import connection

from operations.errors import DomainError
from operations.ledger import breaks, keeping
from operations.ledger.breaks import Break

WHAT_TO_DO: Final = (
    "Nothing was lost by this refusal. An admin runs `manage.py check_ledger`, keeps a copy of the "
    "database, and ends it with `manage.py start_new_log`."
)
RETRY_SECONDS: Final = 30.0
_FRESH_SECONDS: Final = 1.0

_known: tuple[float, Break | None] | None = None


def standing() -> Break | None:
    """The break that stands now, known to this process for at most a second."""
    global _known
    now = time.monotonic()
    if _known is None or now - _known[0] > _FRESH_SECONDS:
        with connection.cursor() as cur:
            _known = (now, breaks.marked(cur) or keeping.misfit(cur))
    return _known[1]


def forget() -> None:
    """Look again at the next question."""
    global _known
    _known = None


def check_claims() -> None:
    """Raise before anything may be executed while the log is not the one that was published."""
    found = standing()
    if found is not None and found.stops_claims:
        raise DomainError("UNAVAILABLE", sentence(found), check="ledger")


def sentence(found: Break) -> str:
    """What happened, what was kept, what to do."""
    return f"The ledger does not fit: {found.sentence} {WHAT_TO_DO}"
