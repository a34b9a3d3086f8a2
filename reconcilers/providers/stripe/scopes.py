"""Narrower lists than an account's window: by a parent, by transfer group, under test clocks.

A list of all leaves out what lives under a test clock (docs.stripe.com/billing/testing), so that
in test mode an empty window alone would be a false "never happened".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reconcilers.providers.base import ProviderError, Question
from reconcilers.providers.stripe.objects import OBJECTS
from reconcilers.providers.stripe.reader import Missing, Reader

#: A sandbox with more customers under clocks than this is a test of its own.
MOST_UNDER_CLOCKS: Final = 50
_CLOCKS: Final = "test_helpers/test_clocks"


@dataclass(frozen=True)
class Scope:
    """Filters of a list. `exhaustive`: an object of the intent cannot be outside of it.

    `grouped`: the transfer group holds our key.
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    exhaustive: bool = True
    grouped: bool = False

    def endpoint(self, path: str) -> str:
        """As the evidence names it."""
        query = "&".join(f"{name}={value}" for name, value in self.filters.items())
        return f"GET /v1/{path}{f'?{query}' if query else ''}"


WHOLE: Final = Scope()


def narrow(question: Question, *, grouped: bool) -> Scope | None:
    """The scope that one question can be asked in alone, or None for the account's window.

    By transfer group where the account promises that it holds our key; by a parent whose id the
    runtime reported, which does not say that there is no other.
    """
    described = OBJECTS[question.object_kind]
    if grouped and described.grouped:
        return Scope({"transfer_group": question.marker}, grouped=True)
    for object_id in question.object_ids:
        name = parent_filter(question.object_kind, object_id)
        if name:
            return Scope({name: object_id}, exhaustive=False)
    return None


def parent_filter(kind: str, object_id: str) -> str:
    """The filter of this kind's list that takes the id; empty where it is no parent's."""
    described = OBJECTS.get(kind)
    if described is not None:
        for prefix, name in described.parents.items():
            if object_id.startswith(prefix) and object_id.isascii():
                return name
    return ""


def hides_some(reader: Reader, kind: str) -> bool:
    """Whether the list of all may leave out objects of this kind. Live mode has no test clocks."""
    return bool(OBJECTS[kind].clock) and reader.mode == "test"


async def under_clocks(reader: Reader, kind: str) -> list[Scope]:
    """What the list of all leaves out, as scopes; raises ProviderError where it cannot be told."""
    described = OBJECTS[kind]
    if not hides_some(reader, kind):
        return []
    try:
        clocks = await _ids(reader, _CLOCKS, {})
        if described.clock == "test_clock":
            found = clocks
        else:
            found = [
                customer
                for clock in clocks
                for customer in await _ids(reader, "customers", {"test_clock": clock})
            ]
    except Missing:
        return []
    except ProviderError as problem:
        raise ProviderError(
            f"what lives under test clocks is not in this list, and they cannot be read: {problem}",
            permanent=problem.permanent,
            status=problem.status,
            retry_after_seconds=problem.retry_after_seconds,
        ) from None
    return [Scope({described.clock: each}) for each in found]


async def _ids(reader: Reader, path: str, filters: Mapping[str, str]) -> list[str]:
    params: dict[str, Any] = {**filters, "limit": 100}
    found: list[str] = []
    while True:
        page = await reader.get(path, params, endpoint=path)
        data = page.body.get("data") or []
        found += [str(body["id"]) for body in data]
        if len(found) > MOST_UNDER_CLOCKS:
            raise ProviderError(f"there are more than {MOST_UNDER_CLOCKS} of them", permanent=True)
        if not page.body.get("has_more") or not data:
            return found
        params["starting_after"] = found[-1]
