"""A runtime no longer wants its call: the operation ends, and with it the question to people.

Both in one transaction, so that nobody is asked for a moment longer than the call is wanted.
"""

from collections.abc import Callable
from typing import Any, Final

from django.db import connection, transaction

from operations import closing
from operations.actors import Runtime
from operations.errors import DomainError
from operations.ids import parse_handle

_CLOSE: Final = """
UPDATE approvals_approvalrequest r
   SET status = 'withdrawn', version = r.version + 1, decided_at = clock_timestamp()
  FROM operations_operation o
 WHERE r.operation_id = %s AND r.status = 'pending' AND o.id = r.operation_id
   AND (o.closed OR o.state IN ('COMMITTED', 'FAILED'))
"""


def cancel(runtime: Runtime, idem_key: str) -> dict[str, Any]:
    """End a PENDING operation; NOT_CANCELLABLE for any other. Answers like outcome."""
    return _with_its_request(closing.cancel, runtime, idem_key)


def close(runtime: Runtime, idem_key: str) -> dict[str, Any]:
    """The intent is no longer wanted, whatever its state; answers like outcome."""
    return _with_its_request(closing.close, runtime, idem_key)


def _with_its_request(
    end: Callable[[Runtime, str], dict[str, Any]], runtime: Runtime, idem_key: str
) -> dict[str, Any]:
    done: dict[str, Any] | DomainError
    with transaction.atomic():
        try:
            done = end(runtime, idem_key)
        except DomainError as error:
            # What was found out on the way (a lapse) is committed before the refusal is raised.
            done = error
        else:
            with connection.cursor() as cur:
                cur.execute(_CLOSE, (parse_handle("op", done["operation"]["id"]),))
    if isinstance(done, DomainError):
        raise done
    return done
