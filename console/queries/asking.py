"""“Ask the provider again”, as the pages call it."""

from importlib import import_module

from operations import states
from operations.models import Operation


def ask_again(operation: Operation, *, actor: str) -> str:
    """Have the next look come now; returns what the person is told."""
    if operation.state != states.UNKNOWN:
        return "It is not unknown any more, so there is nothing to ask."
    import_module("reconcilers.services").ask_again(operation.pk, actor=actor)
    return "The provider will be asked now. The answer appears here when it has come."
