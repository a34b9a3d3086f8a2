"""“Ask the provider again”, as the pages call it."""

from collections.abc import Iterable

from operations.models import Operation
from reconcilers import services

#: More than this is asked for by the sweep anyway.
MOST_AT_ONCE = 500


def ask_again(operation: Operation, *, actor: str) -> str:
    """Have the next look come now; returns what the person is told."""
    asked = services.ask_again(operation.pk, actor=actor)
    if asked is None or not asked.can_be_asked:
        return "There is nobody to ask about this call: a person must find out."
    if asked.is_looking:
        return "The provider is being asked at this moment."
    return "The provider will be asked within seconds. The answer appears here."


def ask_for_all(operations: Iterable[Operation], *, actor: str) -> int:
    """The same for many; returns how many were asked for."""
    asked = [services.ask_again(operation.pk, actor=actor) for operation in operations]
    return sum(one is not None for one in asked)
