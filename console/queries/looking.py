"""Who is looking at what: a claim on a person's attention for ten minutes, kept in the cache.

It keeps two people from working at the same thing and decides nothing. Losing it loses nothing.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.core.cache import cache
from django.http import HttpRequest

from approvals.models import User
from console.queries import queues
from operations.models import Operation

LOOKING_SECONDS: Final = 600
_MOST_TRIED: Final = 200


def who_looks(operations: Sequence[UUID]) -> dict[UUID, str]:
    """Operation -> name of who claimed it lately. Empty where the cache is away."""
    if not operations:
        return {}
    try:
        found = cache.get_many([_key(operation) for operation in operations])
    except Exception:  # noqa: BLE001 -- a hint, and not worth an error page
        return {}
    return {
        operation: str(found[_key(operation)][1])
        for operation in operations
        if _key(operation) in found
    }


def take_next(request: HttpRequest, user: User, query: str) -> Operation | None:
    """The oldest that can be settled now and nobody else looks at; claimed by this person."""
    search = queues.unknown(request, query)
    names_a_kind = any(term.field == "is" for term in search.terms)
    for term in ("is:ready", "is:conflict"):
        narrowed = search if names_a_kind else search.narrowed(term)
        for row in narrowed.rows().order_by("id")[:_MOST_TRIED]:
            if claim_look(row, user):
                return row
    return None


def claim_look(operation: Operation, user: User) -> bool:
    """Note that this person looks at it; False where somebody else does."""
    mine = (str(user.pk), str(user))
    try:
        if cache.add(_key(operation.pk), mine, LOOKING_SECONDS):
            return True
        held = cache.get(_key(operation.pk))
    except Exception:  # noqa: BLE001 -- without the cache nobody is kept from working
        return True
    return held is None or held[0] == str(user.pk)


def _key(operation: UUID) -> str:
    return f"looking:{operation}"
